// What a machine that stops may leave of a store: everything that was synced, and of the rest any pages.
//
// With synchronous=FULL a commit is acknowledged after the sync of the write-ahead log that holds it. So the log up to
// the commit that holds the last acknowledged record is safe; of what follows each page may be there or not. A page of
// the main file that the safe log holds may be half-way through a checkpoint, so it may be anything.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { STORE_FILE_NAME } from "corral/capture";

const WAL_HEADER = 32;
const FRAME_HEADER = 24;
const PIECE = 4096;

/** The frames of the log's present round: page number, and whether a transaction ends with it. */
export function framesOf(wal) {
  if (wal.length < WAL_HEADER) return { frames: [], frameSize: 0 };
  const frameSize = FRAME_HEADER + wal.readUInt32BE(8);
  const salt = wal.subarray(16, 24);
  const frames = [];
  for (let at = WAL_HEADER; at + frameSize <= wal.length; at += frameSize) {
    if (!wal.subarray(at + 8, at + 16).equals(salt)) break;
    frames.push({
      page: wal.readUInt32BE(at),
      isCommit: wal.readUInt32BE(at + 4) !== 0,
      end: at + frameSize,
    });
  }
  return { frames, frameSize };
}

/** Ends of the log's transactions, first to last; 0 stands for an empty log. */
export function commitEnds(wal) {
  return [
    0,
    ...framesOf(wal)
      .frames.filter((frame) => frame.isCommit)
      .map((frame) => frame.end),
  ];
}

/** Copies the store as it would be if the log ended there. */
export function cutImage(from, to, walEnd) {
  mkdirSync(to, { recursive: true });
  copyFileSync(join(from, STORE_FILE_NAME), join(to, STORE_FILE_NAME));
  const wal = readFileSync(join(from, `${STORE_FILE_NAME}-wal`));
  writeFileSync(join(to, `${STORE_FILE_NAME}-wal`), wal.subarray(0, walEnd));
}

/** A crash image: safe up to `safeEnd` of the log, at random beyond it. */
export function crashImage(from, to, safeEnd, random) {
  mkdirSync(to, { recursive: true });
  const main = readFileSync(join(from, STORE_FILE_NAME));
  const wal = readFileSync(join(from, `${STORE_FILE_NAME}-wal`));
  const how = random();
  const survives = () => (how < 0.2 ? false : how < 0.4 ? true : random() < 0.5);
  const safeFrames = framesOf(wal).frames.filter((frame) => frame.end <= safeEnd);
  for (const page of new Set(safeFrames.map((frame) => frame.page))) {
    const at = (page - 1) * PIECE;
    if (at < main.length && !survives())
      scramble(main, at, Math.min(main.length, at + PIECE), random);
  }
  const tail = Buffer.from(wal);
  for (let at = Math.floor(safeEnd / PIECE) * PIECE; at < tail.length; at += PIECE) {
    const start = Math.max(at, safeEnd);
    if (!survives()) scramble(tail, start, Math.min(tail.length, at + PIECE), random);
  }
  const length =
    random() < 0.3 ? safeEnd + Math.floor(random() * (tail.length - safeEnd + 1)) : tail.length;
  writeFileSync(join(to, STORE_FILE_NAME), main);
  writeFileSync(join(to, `${STORE_FILE_NAME}-wal`), tail.subarray(0, length));
}

/** Never written, or written with something else before. */
function scramble(bytes, start, end, random) {
  if (random() < 0.5) bytes.fill(0, start, end);
  else for (let at = start; at < end; at += 1) bytes[at] = Math.floor(random() * 256);
}
