// npm run build && node bench/runtime/main.mjs [repetitions] [ms per cell]
import { cpus } from "node:os";
import { cellsOf, nToN, startAndMemory, streamItemsPerCpuSecond } from "./cells.mjs";
import { deaths, printDeaths } from "./deaths.mjs";
import { interleaved } from "./measure.mjs";
import { peers } from "./peers.mjs";
import { printChecks, printPerCpuSecond, printRatios, printRay, printStart } from "./tables.mjs";

const repetitions = Number(process.argv[2] ?? 15);
const ms = Number(process.argv[3] ?? 100);

console.log(
  `Node ${process.version}, ${cpus().length} × ${cpus()[0].model}; ${repetitions} repetitions of ${ms} ms per cell\n`,
);
const open = {};
for (const [name, make] of Object.entries(peers)) open[name] = await make();
const many = await nToN();
const cells = { ...cellsOf(open), ...many.cells };
// Everything compiled and warm before the first repetition counts.
await interleaved(cells, { repetitions: 2, ms });
const rates = await interleaved(cells, {
  repetitions,
  ms,
  onRepetition: (done) => process.stderr.write(`\r${done}/${repetitions}`),
});
process.stderr.write("\n");
await many.close();
const perCpuSecond = {
  raw: await streamItemsPerCpuSecond(open.raw, 5),
  corral: await streamItemsPerCpuSecond(open.corral, 5),
};
await Promise.all(Object.values(open).map((peer) => peer.close()));
printRatios(rates);
const start = await startAndMemory();
printStart(start);
printPerCpuSecond(perCpuSecond);
printRay(rates);
const checked = printChecks(rates, start);
process.exitCode = printDeaths(await deaths(repetitions)) && checked ? 0 : 1;
