// What the model server adds to a call, with an engine that answers at once: node bench/server/main.mjs [--quick] [--dir D]
// Exit code 1 when a figure is outside its bound. Client and servers share the machine; its load is printed first.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { captureStore, rolloutKey } from "corral/actors";
import { createRuntime } from "corral/runtime";
import Fastify from "fastify";
import { probeDisk } from "../capture/disk.mjs";
import { figure, percentile, printTable } from "../capture/figures.mjs";
import { nullServer } from "./null-server.actor.mjs";
import { threadCpuMs } from "./thread-cpu.mjs";
import { contentOf, firstBody, nextBody } from "./workload.mjs";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    dir: { type: "string", default: tmpdir() },
    /** Used by the bench itself: prints the RSS of a process with so many workers, MB. */
    rss: { type: "string" },
  },
});
const TURNS = 20;
const NEW_BYTES = 600;
/** Rollouts before those that are timed: a server that has just started runs code that is not compiled yet. */
const WARM_LANES = 12;
/** What the p50 of calls 2..n may add, beyond the disk, to what the engine alone takes, ms. */
const ADDED_P50_MS = 2.3;
const CALLS_PER_SECOND = 400;
const WORKER_RSS_MB = 150;
/** The heap is limited as a run's model servers have it. */
const WORKER = { maxConcurrency: 8, maxHeapMiB: 2048 };
/** 256 calls in flight: the shape that memory and a second worker are judged by. */
const BUSY = { bytes: 100_000, stream: false, inFlight: 256 };

const root = mkdtempSync(join(options.dir, "corral-bench-"));
const keySecret = new Uint8Array(32).fill(3);
const agent = new Agent({ keepAlive: true, maxSockets: 512 });
const silent = { debug() {}, info() {}, warn: console.error, error: console.error };
let rounds = 0;
const bounds = [];

if (options.rss !== undefined) {
  const { rssMb } = await round({ ...BUSY, workers: Number(options.rss), turns: 6 });
  console.log(rssMb);
  rmSync(root, { recursive: true });
  process.exit();
}

const disk = probeDisk(root);
console.log(
  `${availableParallelism()} cores, load ${loadavg()[0].toFixed(1)}, fdatasync p50 ${figure(disk.p50)} ms, p99 ${figure(disk.p99)} ms\n`,
);
try {
  const direct = await fastifyAlone();
  const rows = [];
  const shapes = options.quick
    ? [
        [100_000, false, 1, 1],
        [100_000, false, 1, 32],
      ]
    : [4000, 100_000].flatMap((bytes) =>
        [false, true].flatMap((stream) =>
          [1, 2].flatMap((workers) =>
            [1, 32, 256].map((flight) => [bytes, stream, workers, flight]),
          ),
        ),
      );
  const results = new Map();
  for (const [bytes, stream, workers, inFlight] of shapes) {
    const result = await round({ bytes, stream, workers, inFlight, turns: TURNS });
    results.set([bytes, stream, workers, inFlight].join(), result);
    rows.push([bytes, stream ? "yes" : "no", workers, inFlight, ...cells(result)]);
  }
  printTable(
    [
      "body",
      "stream",
      "workers",
      "in flight",
      "first p50 ms",
      "next p50",
      "next p99",
      "calls/s",
      "RSS MB",
    ],
    rows,
  );
  judge(results, direct);
  await experts();
  printTable(["bound", "measured", "allowed", "holds"], bounds);
} finally {
  agent.destroy();
  rmSync(root, { recursive: true });
}
if (bounds.some((row) => row.at(-1) === "NO")) process.exitCode = 1;

function cells({ first, next, perSecond, rssMb }) {
  return [percentile(first, 50), percentile(next, 50), percentile(next, 99), perSecond, rssMb].map(
    figure,
  );
}

function judge(results, direct) {
  const alone = results.get("100000,false,1,1");
  const check = (what, value, allowed, holds) =>
    bounds.push([what, figure(value), allowed, holds ? "yes" : "NO"]);
  if (alone !== undefined) {
    const added = percentile(alone.next, 50) - direct;
    const allowed = ADDED_P50_MS + disk.p50;
    check("added p50, 100 kB, calls 2..n, ms", added, `≤ ${figure(allowed)}`, added <= allowed);
    printStages(alone);
  }
  const busy = results.get("100000,false,1,32");
  if (busy !== undefined && disk.p50 < 0.3)
    check(
      "calls/s, 100 kB, calls 2..n, 1 worker",
      busy.perSecond,
      `≥ ${CALLS_PER_SECOND}`,
      busy.perSecond >= CALLS_PER_SECOND,
    );
  const one = results.get("100000,false,1,256");
  const two = results.get("100000,false,2,256");
  if (one === undefined || two === undefined) return;
  printProcessor({ 1: one, 2: two });
  const gain = two.perSecond / one.perSecond;
  console.log(`2 workers give ${figure(gain)} × the calls/s of one\n`);
  const added = rssOf(2) - rssOf(1);
  check("RSS of a second worker, MB", added, `≤ ${WORKER_RSS_MB}`, added <= WORKER_RSS_MB);
}

/** Where a second worker's time would have to come from. */
function printProcessor(results) {
  const rows = Object.entries(results).map(([workers, { cpu, next, nextSeconds }]) => {
    const ofCall = (ms) => figure(ms / next.length);
    const busy = cpu.all / 1000 / nextSeconds;
    return [workers, ofCall(cpu.workers), ofCall(cpu.client), ofCall(cpu.others), figure(busy)];
  });
  printTable(
    [
      "workers",
      "processor ms a call: workers",
      "client",
      "store, GC and other threads",
      `busy cores of ${availableParallelism()}`,
    ],
    rows,
  );
}

/** Median of seven processes of their own: what one leaves behind is not another's, and when V8 collects is chance. */
function rssOf(workers) {
  const argv = [fileURLToPath(import.meta.url), "--rss", String(workers), "--dir", options.dir];
  const runs = Array.from({ length: 7 }, () => Number(execFileSync(process.execPath, argv)));
  return percentile(runs, 50);
}

function printStages({ stages, next, bodyBytes, jsonMs }) {
  const calls = next.length;
  const rows = Object.entries(stages).map(([name, { ms }]) => [name, figure(ms / calls)]);
  printTable(
    ["stage, mean ms a call", `of a ${bodyBytes}-byte body`],
    [["JSON.parse", figure(jsonMs)], ...rows],
  );
}

/** Rollouts one after another in each lane. */
async function round({ bytes, stream, workers, inFlight, turns, expertsBytes = 0 }) {
  const runtime = await createRuntime({ logger: silent });
  try {
    const dir = join(root, String(rounds++));
    const store = await runtime.spawn(captureStore, { dir }, { maxConcurrency: 512, stopStage: 1 });
    const servers = await Promise.all(
      Array.from({ length: workers }, (_, index) =>
        runtime.spawn(nullServer, { store, index, keySecret, expertsBytes }, WORKER),
      ),
    );
    const urls = await Promise.all(
      servers.map(async (server) => (await server.call.address()).url),
    );
    const target = { store, servers, urls, bytes, stream, turns };
    await lanes({ ...target, prefix: "warm", inFlight: WARM_LANES });
    const times = await lanes({ ...target, prefix: "r", inFlight });
    const stages = await servers[0].call.stages();
    const rssMb = process.memoryUsage().rss / 2 ** 20;
    return { ...times, stages, rssMb, perSecond: times.next.length / times.nextSeconds };
  } finally {
    await runtime.shutdown({ deadlineMs: 10_000 });
  }
}

async function lanes({ store, servers, urls, bytes, stream, turns, prefix, inFlight }) {
  const openings = await Promise.all(
    Array.from({ length: inFlight }, async (_, lane) => {
      const rolloutId = `${prefix}-${lane}`;
      return { rolloutId, epoch: (await store.call.open(rolloutId)).epoch, captured: true };
    }),
  );
  for (const server of servers) await server.call.openRollouts(openings);
  const first = [];
  const next = [];
  const chats = openings.map(({ rolloutId, epoch }, lane) => ({
    url: `${urls[lane % urls.length]}/ng-rollout/${rolloutId}/training-token-capture/v1/messages`,
    key: rolloutKey(keySecret, rolloutId, epoch),
    body: firstBody(bytes, stream),
    sent: "",
  }));
  const call = async (chat, times) => {
    chat.sent = JSON.stringify(chat.body);
    const started = performance.now();
    const answer = await post(chat.url, chat.sent, chat.key);
    times.push(performance.now() - started);
    nextBody(chat.body, contentOf(answer, stream), NEW_BYTES);
  };
  await Promise.all(chats.map((chat) => call(chat, first)));
  for (const server of servers) await server.call.stages(); // Those that follow are of calls 2..n.
  const before = await processorOf(servers);
  const started = performance.now();
  await Promise.all(
    chats.map(async (chat) => {
      for (let turn = 1; turn < turns; turn += 1) await call(chat, next);
    }),
  );
  const nextSeconds = (performance.now() - started) / 1000;
  const after = await processorOf(servers);
  const cpu = Object.fromEntries(Object.keys(after).map((key) => [key, after[key] - before[key]]));
  const { sent } = chats[0];
  const parsing = performance.now();
  JSON.parse(sent);
  const jsonMs = performance.now() - parsing;
  return { first, next, nextSeconds, cpu, bodyBytes: sent.length, jsonMs };
}

/** Processor time so far, ms. */
async function processorOf(servers) {
  const each = await Promise.all(servers.map((server) => server.call.cpuMs()));
  const workers = each.reduce((sum, ms) => sum + ms, 0);
  const client = threadCpuMs();
  const { user, system } = process.cpuUsage();
  const all = (user + system) / 1000;
  return { workers, client, others: all - workers - client, all };
}

function post(url, text, key) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "x-api-key": key };
    const outgoing = request(url, { method: "POST", agent, headers }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => {
        const answer = Buffer.concat(chunks).toString("utf8");
        if (response.statusCode === 200) resolve(answer);
        else reject(new Error(`${response.statusCode} ${answer.slice(0, 300)}`));
      });
    });
    outgoing.on("error", reject);
    outgoing.end(text);
  });
}

/** An engine that answers at once, called directly: what parsing such a body costs at least, with the same client, ms. */
async function fastifyAlone() {
  const app = Fastify({ bodyLimit: 2 ** 26 });
  app.post("/*", () => ({ ok: true }));
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const text = JSON.stringify(firstBody(100_000, false));
  const times = [];
  for (let call = 0; call < 300; call += 1) {
    const started = performance.now();
    await post(url, text, "k");
    times.push(performance.now() - started);
  }
  const p50 = percentile(times.slice(50), 50);
  console.log(`An engine called directly (Fastify alone), 100 kB: p50 ${figure(p50)} ms\n`);
  await app.close();
  return p50;
}

/** 32 rollouts of 50 turns whose records carry a large `routed_experts`. */
async function experts() {
  const shape = options.quick ? { inFlight: 8, turns: 10 } : { inFlight: 32, turns: 50 };
  const result = await round({
    bytes: 4000,
    stream: false,
    workers: 1,
    ...shape,
    expertsBytes: 200_000,
  });
  printTable(
    [
      `${shape.inFlight} rollouts × ${shape.turns} turns, 200 kB routed_experts a call`,
      "next p50 ms",
      "next p99",
      "calls/s",
      "RSS MB",
    ],
    [["", ...cells(result).slice(1)]],
  );
}
