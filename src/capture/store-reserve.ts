/**
 * Room that is kept for marks. A store that is full can record nothing, not even that it recorded nothing.
 *
 * V1. A write that the disk or the size limit refuses leaves a mark on its rollout, from the reserve.
 * V2. The reserve is real blocks on the disk, not a hole in a file, and is made again when there is room.
 */
import { closeSync, fsyncSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { type Connection, setSizeLimit } from "./schema.js";

/** Thousands of marks: each takes a few pages of the log, which is then written over. */
const RESERVE_BYTES = 1024 * 1024;

export class StoreReserve {
  readonly #connection: Connection;
  readonly #maxSizeBytes: number | undefined;
  readonly #path: string;
  #isHeld = false;

  constructor(connection: Connection, path: string, maxSizeBytes: number | undefined) {
    this.#connection = connection;
    this.#maxSizeBytes = maxSizeBytes;
    this.#path = path;
    this.refill();
  }

  /** Does nothing when it is held, or when there is no room for it. */
  refill(): void {
    if (this.#isHeld) return;
    this.#isHeld = hasSize(this.#path, RESERVE_BYTES) || fill(this.#path, RESERVE_BYTES); // V2
    if (this.#isHeld && this.#maxSizeBytes !== undefined)
      setSizeLimit(this.#connection, this.#maxSizeBytes);
  }

  /** Frees the room. */
  release(): void {
    this.#isHeld = false;
    rmSync(this.#path, { force: true });
    if (this.#maxSizeBytes !== undefined)
      setSizeLimit(this.#connection, this.#maxSizeBytes + RESERVE_BYTES);
  }
}

function hasSize(path: string, bytes: number): boolean {
  return statSync(path, { throwIfNoEntry: false })?.size === bytes;
}

function fill(path: string, bytes: number): boolean {
  let file: number | undefined;
  try {
    file = openSync(path, "w", 0o600);
    for (let written = 0; written < bytes; )
      written += writeSync(file, new Uint8Array(Math.min(bytes - written, 65_536)));
    fsyncSync(file);
    return true;
  } catch {
    rmSync(path, { force: true });
    return false;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
