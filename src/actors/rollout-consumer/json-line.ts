/** A value as a line of JSON: whole when it is short, else its beginning and the pieces that follow. */
import { jsonChunks } from "./json-chunks.js";

export interface EncodedLine {
  /** The whole line, or the beginning of a long one. */
  readonly bytes: Buffer;
  /** What follows in a long line, its end included. */
  readonly rest?: Iterable<Uint8Array>;
}

/** Bytes of a line that are encoded at once. */
const SHORT_LINE = 1024 * 1024;
const LINE_END = Uint8Array.of(0x0a);

/** @throws TypeError when the beginning has no JSON form; iterating `rest` throws it for what follows. */
export function encodeLine(value: unknown): EncodedLine {
  const chunks = jsonChunks(value);
  const start: Uint8Array[] = [];
  let length = 0;
  for (let next = chunks.next(); next.done !== true; next = chunks.next()) {
    // The memory of a chunk is used again.
    start.push(Buffer.from(next.value));
    length += next.value.length;
    if (length > SHORT_LINE) return { bytes: Buffer.concat(start), rest: withEnd(chunks) };
  }
  return { bytes: Buffer.concat([...start, LINE_END]) };
}

function* withEnd(chunks: Iterable<Uint8Array>): Generator<Uint8Array, void, undefined> {
  yield* chunks;
  yield LINE_END;
}
