/**
 * Splits a file of JSON lines, whatever wrote them and however long they are.
 *
 * W1. Only "\n" ends a line: JSON text may hold U+2028, U+2029 and other characters that `node:readline` splits at.
 * W2. A line that no string can hold is never put together: it is told by its size, and what follows it is read.
 */
import type { FileHandle } from "node:fs/promises";

/** Characters that a string of V8 holds at most; a byte is never more than one. */
const MAX_STRING_LENGTH = 0x1fff_ffe8;
const CHUNK_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

export interface FileLine {
  /** From 1. */
  readonly number: number;
  /** UTF-8, without its end; null when the line is longer than the limit. */
  readonly text: string | null;
  /** With its end. */
  readonly bytes: number;
  /** False for what stands behind the last "\n". */
  readonly ended: boolean;
}

/**
 * The lines of a file, one at a time. The file stays open.
 * @param maxLineBytes longest line that is read. Default: what a string holds.
 */
export async function* fileLines(
  file: Pick<FileHandle, "read">,
  maxLineBytes = MAX_STRING_LENGTH,
): AsyncGenerator<FileLine> {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let line = new PartialLine(1, maxLineBytes);
  for (let position = 0; ; ) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) break;
    position += bytesRead;
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && end < bytesRead; ) {
      line.add(chunk.subarray(start, end));
      yield line.finish(true);
      line = new PartialLine(line.number + 1, maxLineBytes);
      start = end + 1;
      end = chunk.indexOf(NEWLINE, start);
    }
    line.add(chunk.subarray(start, bytesRead));
  }
  if (line.bytes > 0) yield line.finish(false);
}

/** Why a line has no text. */
export function lineTooLong({ bytes }: FileLine, maxLineBytes = MAX_STRING_LENGTH): string {
  return (
    `has ${bytes} bytes; at most ${maxLineBytes} can be read as one line ` +
    "(rows with output_form: delta are many times shorter)"
  );
}

class PartialLine {
  readonly number: number;
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  bytes = 0;

  constructor(number: number, maxBytes: number) {
    this.number = number;
    this.#maxBytes = maxBytes;
  }

  /** Copies: the caller reads the next bytes into the same memory. */
  add(bytes: Buffer): void {
    this.bytes += bytes.length;
    if (this.bytes <= this.#maxBytes) this.#parts.push(Buffer.from(bytes));
    else this.#parts = []; // W2
  }

  finish(ended: boolean): FileLine {
    const isLong = this.bytes > this.#maxBytes;
    const text = isLong ? null : Buffer.concat(this.#parts).toString("utf8");
    return { number: this.number, text, bytes: this.bytes + (ended ? 1 : 0), ended };
  }
}
