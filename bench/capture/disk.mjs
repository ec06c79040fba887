// What the disk itself can do: one thread that appends 4 KiB and waits for fdatasync, the unit of every figure here.
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { percentile } from "./figures.mjs";

/** Appends per second and the median and 99th percentile of one, in ms. */
export function probeDisk(dir, appends = 400) {
  const path = join(dir, "probe");
  const block = Buffer.alloc(4096, 7);
  const file = openSync(path, "a");
  const times = [];
  const start = performance.now();
  for (let i = 0; i < appends; i += 1) {
    const before = performance.now();
    writeSync(file, block);
    fdatasyncSync(file);
    times.push(performance.now() - before);
  }
  const seconds = (performance.now() - start) / 1000;
  closeSync(file);
  rmSync(path);
  return { perSecond: appends / seconds, p50: percentile(times, 50), p99: percentile(times, 99) };
}
