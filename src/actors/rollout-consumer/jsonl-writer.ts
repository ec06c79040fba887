/**
 * One append-only JSONL file, durable line by line. The rows and the journal are both written with it. It knows
 * nothing of what the lines mean.
 *
 * J1. `append` resolves only when the whole line is on disk (fsync); the directory is synced when the file is made.
 *     Lines that wait together share one write and one fsync.
 * J2. On open the file is cut to its last whole, parseable line. Only a torn tail is cut: a line that does not parse
 *     and is followed by others is corruption and an error.
 * J3. A failed append leaves nothing: the file is cut back to the last whole line. If that fails too, the file takes
 *     no more lines until it is opened again, which cuts it. A line fails alone, not with those it was written with.
 * J4. A long line is written in pieces: a row of any size takes no more memory than the value itself and one piece.
 */
import fs, { type FileHandle } from "node:fs/promises";
import path from "node:path";
import { fileLines, lineTooLong } from "../../capture/index.js";
import { RolloutConsumerError } from "./errors.js";
import { type EncodedLine, encodeLine } from "./json-line.js";

/** What an append needs of the open file. */
export type AppendFile = Pick<FileHandle, "write" | "sync" | "truncate" | "close">;

interface WaitingLine extends EncodedLine {
  resolve(): void;
  reject(error: unknown): void;
}

export class JsonlWriter {
  readonly path: string;
  /** Bytes of a torn last line that were cut on open. */
  readonly cutBytes: number;
  readonly #file: AppendFile;
  #size: number;
  #broken: unknown = null;
  #waiting: WaitingLine[] = [];
  #draining: Promise<void> | undefined;

  constructor(filePath: string, file: AppendFile, size: number, cutBytes = 0) {
    this.path = filePath;
    this.#file = file;
    this.#size = size;
    this.cutBytes = cutBytes;
  }

  /**
   * Opens or makes the file and hands every whole line to `onLine`, in order.
   * @param maxLineBytes longest line that is read back. Default: what a string holds.
   * @throws FILE_CORRUPT naming the line when one in the middle does not parse, `onLine` refuses it, or it is longer
   *   than the limit.
   */
  static async open(
    filePath: string,
    onLine: (value: unknown) => void,
    maxLineBytes?: number,
  ): Promise<JsonlWriter> {
    await fs.mkdir(path.dirname(filePath), { recursive: true });
    const existed = await exists(filePath);
    const file = await fs.open(filePath, existed ? "r+" : "wx+");
    try {
      if (!existed) await syncDirectory(path.dirname(filePath));
      const { size } = await file.stat();
      const whole = await readLines(file, filePath, onLine, maxLineBytes);
      if (whole < size) {
        await file.truncate(whole); // J2
        await file.sync();
      }
      return new JsonlWriter(filePath, file, whole, size - whole);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /**
   * Appends one line. Lines are written in the order of the calls.
   * Contract: the value does not change before the promise settles.
   * @throws APPEND_FAILED when the line is not durable; nothing of it is left.
   */
  append(value: unknown): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...encodeLine(value), resolve, reject });
      this.#draining ??= this.#drain();
    });
  }

  /** Closes the file after the lines on their way. */
  async close(): Promise<void> {
    await this.#draining;
    await this.#file.close();
  }

  async #drain(): Promise<void> {
    await Promise.resolve(); // Lines of the same turn go together.
    while (this.#waiting.length > 0) {
      const lines = this.#takeLines();
      const together = lines.length > 1 && (await this.#tryWrite(lines));
      if (!together) for (const line of lines) await this.#tryWrite([line]);
    }
    this.#draining = undefined;
  }

  /** The lines to write at once: all short ones in front, or one long one. */
  #takeLines(): WaitingLine[] {
    const long = this.#waiting.findIndex(({ rest }) => rest !== undefined);
    return this.#waiting.splice(0, long < 0 ? this.#waiting.length : Math.max(1, long));
  }

  /** False when several lines did not fit together: each is then tried alone (J3). */
  async #tryWrite(lines: readonly WaitingLine[]): Promise<boolean> {
    try {
      await this.#write(lines);
    } catch (error) {
      if (lines.length > 1) return false;
      lines[0]?.reject(error);
      return false;
    }
    for (const line of lines) line.resolve();
    return true;
  }

  async #write(lines: readonly WaitingLine[]): Promise<void> {
    if (this.#broken !== null) throw this.#failed("takes no more lines", this.#broken);
    const start = Buffer.concat(lines.map(({ bytes }) => bytes));
    let end = this.#size;
    try {
      await this.#writeAll(start, end);
      end += start.length;
      for (const piece of lines[0]?.rest ?? []) {
        await this.#writeAll(piece, end); // J4
        end += piece.length;
      }
      await this.#file.sync();
    } catch (error) {
      await this.#cutBack();
      throw this.#failed("the line was not written", error);
    }
    this.#size = end;
  }

  async #writeAll(bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(
        bytes,
        done,
        bytes.length - done,
        position + done,
      );
      if (bytesWritten === 0) throw new Error("the file takes no more bytes");
      done += bytesWritten;
    }
  }

  /** J3. */
  async #cutBack(): Promise<void> {
    try {
      await this.#file.truncate(this.#size);
      await this.#file.sync();
    } catch (error) {
      this.#broken = error;
    }
  }

  #failed(what: string, cause: unknown): RolloutConsumerError {
    const why = cause instanceof Error ? cause.message : String(cause);
    return new RolloutConsumerError("APPEND_FAILED", `${this.path}: ${what}: ${why}`, { cause });
  }
}

/** Length of the file up to the end of its last whole, parseable line. */
async function readLines(
  file: FileHandle,
  filePath: string,
  onLine: (value: unknown) => void,
  maxLineBytes?: number,
): Promise<number> {
  let whole = 0;
  let bad: { number: number; error: unknown } | null = null;
  for await (const line of fileLines(file, maxLineBytes)) {
    const { number, text, bytes, ended } = line;
    if (!ended) break;
    // A bad line may only be the last one (J2).
    if (bad !== null) throw corrupt(filePath, bad);
    try {
      if (text === null) throw new RangeError(lineTooLong(line, maxLineBytes));
      onLine(JSON.parse(text));
      whole += bytes;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw corrupt(filePath, { number, error });
      bad = { number, error };
    }
  }
  return whole;
}

function corrupt(filePath: string, bad: { number: number; error: unknown }): RolloutConsumerError {
  const why = bad.error instanceof Error ? bad.error.message : String(bad.error);
  return new RolloutConsumerError("FILE_CORRUPT", `${filePath}: line ${bad.number}: ${why}`, {
    cause: bad.error,
  });
}

async function exists(filePath: string): Promise<boolean> {
  return fs
    .access(filePath)
    .then(() => true)
    .catch(() => false);
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await fs.open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
