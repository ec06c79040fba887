import { readFileSync } from "node:fs";

/** Processor time of the calling thread, ms. Linux only. */
export function threadCpuMs() {
  const [ns] = readFileSync("/proc/thread-self/schedstat", "utf8").split(" ");
  return Number(ns) / 1e6;
}
