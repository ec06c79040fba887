// kill -9 and crash images of the store: node bench/capture/chaos/main.mjs [--kills 200] [--images 100] [--within 1500] [--seed N] [--json]
// Exit code 1 when anything acknowledged is lost, or anything incomplete looks complete. `--unsafe` drops pages that
// were synced: it must find losses, else the harness proves nothing.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { STORE_FILE_NAME } from "corral/capture";
import { commitEnds, crashImage, cutImage } from "./image.mjs";
import { judge } from "./judge.mjs";
import { historyOf, killRun } from "./kill.mjs";

const { values: options } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    images: { type: "string", default: "100" },
    // Acknowledged puts before the kill, at most.
    within: { type: "string", default: "1500" },
    seed: { type: "string", default: String(Date.now() % 1e9) },
    unsafe: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const kills = Number(options.kills);
const images = Number(options.images);
let state = Number(options.seed) >>> 0;
const random = () => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
};

const root = mkdtempSync(join(tmpdir(), "corral-chaos-"));
const total = { kills: 0, images: 0, rollouts: 0, acknowledged: 0, faults: [] };
try {
  for (let run = 0; run < kills; run += 1) {
    const dir = join(root, `run-${run}`);
    const history = historyOf(await killRun(dir, { random, within: Number(options.within) }));
    const wanted = Math.floor(((run + 1) * images) / kills) - Math.floor((run * images) / kills);
    for (let image = 0; image < wanted; image += 1) await oneImage(dir, history, `${run}.${image}`);
    note(`run ${run}`, await judge(dir, history));
    total.kills += 1;
    total.rollouts += history.size;
    total.acknowledged += [...history.values()].reduce((sum, { put }) => sum + put.size, 0);
    rmSync(dir, { recursive: true });
    if (!options.json && run % 10 === 9)
      console.log(JSON.stringify({ ...total, faults: total.faults.length }));
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
console.log(JSON.stringify({ seed: Number(options.seed), ...total }));
process.exitCode = total.faults.length === 0 ? 0 : 1;

function note(where, faults) {
  total.faults.push(...faults.map((fault) => `${where}: ${fault}`));
}

async function oneImage(dir, history, name) {
  const safeEnd = await firstSafeEnd(dir, history);
  const to = join(root, `image-${name}`);
  const ends = commitEnds(readFileSync(join(dir, `${STORE_FILE_NAME}-wal`)));
  const end = options.unsafe ? (ends[Math.floor(ends.indexOf(safeEnd) / 2)] ?? 0) : safeEnd;
  crashImage(dir, to, end, random);
  note(`image ${name}`, await judge(to, history));
  total.images += 1;
  rmSync(to, { recursive: true });
}

/** The shortest log that holds all that was acknowledged: its sync is what the acknowledgements waited for. */
async function firstSafeEnd(dir, history) {
  const ends = commitEnds(readFileSync(join(dir, `${STORE_FILE_NAME}-wal`)));
  let low = 0;
  let high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    const probe = join(root, "probe");
    cutImage(dir, probe, ends[middle]);
    const faults = await judge(probe, history);
    rmSync(probe, { recursive: true });
    if (faults.length === 0) high = middle;
    else low = middle + 1;
  }
  return ends[low];
}
