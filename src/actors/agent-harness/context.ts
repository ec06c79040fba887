/** What the agent harness needs of its actor context. */
export interface HarnessContext {
  readonly logger: HarnessLogger;
  task<T = unknown>(
    module: string,
    exportName: string,
    args: readonly unknown[],
    options?: { timeoutMs?: number },
  ): Promise<T>;
}

export interface HarnessLogger {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}
