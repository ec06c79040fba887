/** Reads JSON lines one at a time: a results file may be larger than memory. */
import fs from "node:fs";
import readline from "node:readline";
import { ConfigError } from "./errors.js";

export interface JsonLine {
  /** From 1. */
  readonly line: number;
  /** Undefined when the line is not JSON. */
  readonly value: unknown;
}

/** @throws FILE_NOT_FOUND naming the option and the file. */
export async function* readJsonLines(file: string, option: string): AsyncGenerator<JsonLine> {
  const input = fs.createReadStream(file, { encoding: "utf8" });
  const opened = new Promise<void>((resolve, reject) => {
    input.once("open", () => resolve());
    input.once("error", reject);
  });
  try {
    await opened;
  } catch (cause) {
    const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new ConfigError("FILE_NOT_FOUND", option, `cannot read ${file} (${reason})`, { cause });
  }
  let line = 0;
  for await (const text of readline.createInterface({ input, crlfDelay: Infinity })) {
    line++;
    if (text.trim() !== "") yield { line, value: parse(text) };
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
