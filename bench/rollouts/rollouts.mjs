/**
 * Rollouts per second of the whole path: function harness, HTTP, embedded engine, durable records, rebuild, hand-off to a
 * trainer that accepts each group. `npm run build && node bench/rollouts/rollouts.mjs [short|claude] [tasks] [workers]`.
 *
 * Prints JSON: rollouts/s without start and stop, and the resident memory at tenths of the run.
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
const startedMs = performance.now();
let groups = 0;
for await (const group of run.rolloutGroups(list)) {
  await group.accept();
  groups++;
  if (groups % Math.max(1, Math.floor(list.length / 10)) === 0)
    memory.push(Math.round(process.memoryUsage().rss / 2 ** 20));
}
const seconds = (performance.now() - startedMs) / 1000;
const stats = run.stats();
await run.close();
rmSync(folder, { recursive: true });
console.log(
  JSON.stringify({
    kind,
    workers: Number(workers),
    rollouts: stats.rollouts,
    masked: stats.masked,
    seconds: Number(seconds.toFixed(1)),
    rollouts_per_s: Number((stats.rollouts / seconds).toFixed(1)),
    cpu_s: Number((process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6).toFixed(1)),
    rss_mib: memory,
  }),
);
