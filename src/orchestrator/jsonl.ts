/** Reads JSON lines one at a time: a results file may be larger than memory. */
import fs, { type FileHandle } from "node:fs/promises";
import { fileLines, lineTooLong } from "../capture/index.js";
import { ConfigError } from "./errors.js";

export interface JsonLine {
  /** From 1. */
  readonly line: number;
  /** Undefined when the line is not JSON. */
  readonly value: unknown;
}

/**
 * @param maxLineBytes longest line that is read. Default: what a string holds.
 * @throws FILE_NOT_FOUND naming the option and the file; INVALID_VALUE naming a line that is longer than the limit.
 */
export async function* readJsonLines(
  path: string,
  option: string,
  maxLineBytes?: number,
): AsyncGenerator<JsonLine> {
  await using file = await openFile(path, option);
  for await (const line of fileLines(file, maxLineBytes)) {
    const { number, text } = line;
    if (text === null) {
      const problem = lineTooLong(line, maxLineBytes);
      throw new ConfigError("INVALID_VALUE", option, `line ${number} of ${path} ${problem}`);
    }
    if (text.trim() !== "") yield { line: number, value: parse(text) };
  }
}

async function openFile(path: string, option: string): Promise<FileHandle> {
  try {
    return await fs.open(path);
  } catch (cause) {
    const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new ConfigError("FILE_NOT_FOUND", option, `cannot read ${path} (${reason})`, { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
