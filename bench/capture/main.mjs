// Figures of the capture store against the disk it lies on, in one run: node bench/capture/main.mjs [--quick] [--dir D]
// Exit code 1 when a figure is outside its bound. Nothing else should run beside it.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createRuntime } from "corral/runtime";
import { figure, printTable } from "./figures.mjs";
import { longRollout, puts } from "./puts.mjs";
import { builds, storage } from "./rebuilds.mjs";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    dir: { type: "string", default: tmpdir() },
  },
});
const root = mkdtempSync(join(options.dir, "corral-bench-"));
const silent = { debug() {}, info() {}, warn: console.error, error: console.error };
const runtime = await createRuntime({ logger: silent });
const bounds = [];
let folders = 0;
const bench = {
  runtime,
  root,
  quick: options.quick,
  rounds: options.quick ? 1 : 5,
  folder: () => join(root, String(folders++)),
  /** `applies: false` notes a figure whose bound is for other conditions. */
  check(what, value, relation, allowed, applies = true) {
    const holds = relation === "<=" ? value <= allowed : value >= allowed;
    bounds.push([
      what,
      figure(value),
      `${relation} ${allowed}`,
      applies ? (holds ? "yes" : "NO") : "n/a",
    ]);
  },
};
console.log(
  `${cpus().length} cores, load ${loadavg().map(figure).join(" ")}, Node ${process.version}, ${root}\n`,
);
try {
  await puts(bench);
  await longRollout(bench);
  await storage(bench);
  await builds(bench);
  printTable(["bound", "measured", "allowed", "holds"], bounds);
  console.log(`load at the end ${loadavg().map(figure).join(" ")}`);
} finally {
  await runtime.shutdown({ deadlineMs: 5000 });
  rmSync(root, { recursive: true });
}
if (bounds.some((row) => row.at(-1) === "NO")) process.exitCode = 1;
