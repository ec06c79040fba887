/**
 * Rollouts per second of the whole path: function harness, HTTP, embedded engine, durable records, rebuild, hand-off to a
 * trainer that accepts each group. `npm run build && node bench/rollouts/rollouts.mjs [short|claude] [tasks] [workers]`.
 *
 * Prints JSON: rollouts/s and processor time a rollout, without start and stop; the same for the second half alone, when
 * the code is warm; and the resident memory at tenths of the run.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { launch, loadConfig } from "corral";

const [kind = "short", tasks = "100", workers = "1", concurrency = "16"] = process.argv.slice(2);
const GROUP_SIZE = 8;
const folder = mkdtempSync(path.join(tmpdir(), "corral-bench-"));
const silent = () => undefined;
const logger = { debug: silent, info: silent, warn: console.error, error: console.error };

const config = loadConfig({
  token_id_capture: { enabled: true, dir: folder },
  responses_api_models: {
    policy: {
      engine: { kind: "embedded" },
      num_workers: Number(workers),
      sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
    },
  },
  responses_api_agents: {
    bench: {
      kind: "function",
      module: `${path.join(import.meta.dirname, "harness.mjs")}#${kind}`,
      model: "policy",
      token_id_capture: true,
      concurrency: Number(concurrency),
    },
  },
  rollout: { group_size: GROUP_SIZE },
});

const run = await launch(config, { logger });
const list = Array.from({ length: Number(tasks) }, (_, index) => ({
  _ng_task_index: index,
  responses_create_params: { input: `Reply with the word apple${index} only.` },
}));
const memory = [];
let groups = 0;
const begun = sample();
let half = begun;
for await (const group of run.rolloutGroups(list)) {
  await group.accept();
  groups++;
  if (groups === Math.floor(list.length / 2)) half = sample();
  if (groups % Math.max(1, Math.floor(list.length / 10)) === 0)
    memory.push(Math.round(process.memoryUsage().rss / 2 ** 20));
}
const ended = sample();
const stats = run.stats();
await run.close();
rmSync(folder, { recursive: true });
console.log(
  JSON.stringify({
    kind,
    workers: Number(workers),
    rollouts: stats.rollouts,
    masked: stats.masked,
    ...between(begun, ended),
    second_half: between(half, ended),
    rss_mib: memory,
  }),
);

function sample() {
  const { user, system } = process.cpuUsage();
  return { ms: performance.now(), cpuMs: (user + system) / 1000, rollouts: groups * GROUP_SIZE };
}

function between(from, to) {
  const rollouts = to.rollouts - from.rollouts;
  const seconds = (to.ms - from.ms) / 1000;
  return {
    seconds: Number(seconds.toFixed(1)),
    rollouts_per_s: Number((rollouts / seconds).toFixed(1)),
    cpu_ms_per_rollout: Number(((to.cpuMs - from.cpuMs) / rollouts).toFixed(1)),
  };
}
