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

/** A reader that closes our output (`corral … | head`) ends us quietly. */
export function guardStdout(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(0);
  });
}

/** Resolves when the text was handed over: a pipe may be slower than we are. */
export async function printText(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  await new Promise<void>((resolve) => process.stdout.once("drain", resolve));
}

/** At most `digits` decimals; "–" for nothing. */
export function figure(value: number | null, digits = 2): string {
  return value === null || !Number.isFinite(value) ? "–" : String(Number(value.toFixed(digits)));
}
