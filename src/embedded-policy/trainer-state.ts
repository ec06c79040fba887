/**
 * A trainer in a file: weights, optimiser and the caller's own notes, in one.
 *
 * Layout, little-endian: `CORRALTS`, uint32 format, uint32 bytes of a JSON header, the header, weights, squares.
 *
 * S1. What loads is bit for bit what was saved; anything else is refused with what is wrong.
 * S2. A file appears under its name whole or not at all: weights and notes are never of different steps.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { snapshotFrom } from "./checkpoint.js";
import { PolicyError } from "./errors.js";
import { decodeSparse, encodeSparse, type Invalid, writeWhole } from "./sparse-array.js";
import type { PolicySnapshot } from "./types.js";
import type { OptimizerState } from "./update.js";

const MAGIC = "CORRALTS";
const FORMAT = 1;
const PREFIX_BYTES = 16;

export interface TrainerState {
  readonly snapshot: PolicySnapshot;
  readonly optimizer: OptimizerState;
  /** What the caller keeps with the weights, e.g. the slots that it has trained. JSON. */
  readonly notes: unknown;
}

interface Header {
  readonly version: number;
  readonly notes: unknown;
  readonly weights: { readonly count: number; readonly bytes: number };
  readonly squares: { readonly count: number; readonly bytes: number };
  /** sha256, hex, of both blocks. */
  readonly digest: string;
}

/** Overwrites. Durable when it resolves. */
export async function saveTrainerState(path: string, state: TrainerState): Promise<void> {
  const weights = encodeSparse(state.snapshot.weights);
  const squares = encodeSparse(state.optimizer.squares);
  const header: Header = {
    version: state.snapshot.version,
    notes: state.notes,
    weights: { count: weights.count, bytes: weights.bytes.length },
    squares: { count: squares.count, bytes: squares.bytes.length },
    digest: digestOf(weights.bytes, squares.bytes),
  };
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.write(MAGIC, "latin1");
  prefix.writeUInt32LE(FORMAT, 8);
  prefix.writeUInt32LE(text.length, 12);
  await writeWhole(path, Buffer.concat([prefix, text, weights.bytes, squares.bytes])); // S2
}

/**
 * @throws PolicyError `CHECKPOINT_INVALID` when the file cannot be read or is damaged, `CHECKPOINT_TOO_NEW` when a newer
 * Corral wrote it.
 */
export async function loadTrainerState(path: string): Promise<TrainerState> {
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new PolicyError("CHECKPOINT_INVALID", `cannot read the trainer state ${path}`, { cause });
  });
  const invalid: Invalid = (what, cause) =>
    new PolicyError("CHECKPOINT_INVALID", `the trainer state ${path} ${what}`, { cause });
  if (bytes.length < PREFIX_BYTES || bytes.toString("latin1", 0, 8) !== MAGIC)
    throw invalid(`does not begin with ${MAGIC}`);
  const format = bytes.readUInt32LE(8);
  if (format > FORMAT) {
    const message = `the trainer state ${path} has format ${format}; this version reads up to ${FORMAT}`;
    throw new PolicyError("CHECKPOINT_TOO_NEW", message);
  }
  const start = PREFIX_BYTES + bytes.readUInt32LE(12);
  const header = parseHeader(bytes.subarray(PREFIX_BYTES, start), invalid);
  const middle = start + header.weights.bytes;
  const blocks = [bytes.subarray(start, middle), bytes.subarray(middle)] as const;
  if (digestOf(...blocks) !== header.digest) throw invalid("is cut or damaged"); // S1
  const weights = decodeSparse({ count: header.weights.count, bytes: blocks[0] }, invalid);
  const squares = decodeSparse({ count: header.squares.count, bytes: blocks[1] }, invalid);
  return {
    snapshot: snapshotFrom(weights, header.version, invalid),
    optimizer: { squares },
    notes: header.notes,
  };
}

function parseHeader(text: Buffer, invalid: Invalid): Header {
  try {
    return JSON.parse(text.toString("utf8")) as Header;
  } catch (cause) {
    throw invalid("has a header that is no JSON", cause);
  }
}

function digestOf(...blocks: readonly Buffer[]): string {
  const hash = createHash("sha256");
  for (const block of blocks) hash.update(block);
  return hash.digest("hex");
}
