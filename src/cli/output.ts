/** What every command prints the same way. */
import { isConfigError } from "../index.js";

/** One line on stderr; an error's stack only with `CORRAL_DEBUG` set. */
export function printError(error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  const [firstLine = ""] = message.replace(/^error: /, "").split("\n");
  process.stderr.write(`corral: ${firstLine}\n`);
  if (process.env["CORRAL_DEBUG"] && error instanceof Error)
    process.stderr.write(`${error.stack}\n`);
}

export function exitCodeOf(error: unknown): number {
  return isConfigError(error) ? 2 : 1;
}

export function printWarning(message: string): void {
  process.stderr.write(`corral: warning: ${message}\n`);
}

/**
 * A reader that goes away (`corral … | head`, a closed terminal) ends no command: each write tells its own caller, and
 * a line of progress that nobody reads is no loss.
 */
export function guardOutput(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
}

/**
 * Resolves when the text was handed over, a pipe may be slower than we are; false when nobody reads it any more.
 * @throws the write's error, such as ENOSPC when the output is a file.
 */
export async function printText(text: string): Promise<boolean> {
  const error = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
    process.stdout.write(text, resolve);
  });
  if (!error) return true;
  if (error.code === "EPIPE" || process.stdout.isTTY) return false;
  throw error;
}

/** At most `digits` decimals; "–" for nothing. */
export function figure(value: number | null, digits = 2): string {
  return value === null || !Number.isFinite(value) ? "–" : String(Number(value.toFixed(digits)));
}
