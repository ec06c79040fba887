// What is measured. Cells are named after Ray's microbenchmarks where they have the same shape.
import { once } from "node:events";
import { MessageChannel, Worker } from "node:worker_threads";
import { createRuntime } from "corral/runtime";
import { bench, submitter } from "./workers/bench.actor.mjs";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const STREAM_ITEMS = 5000;

/** 128 kB: what one model call records, 30 000 ids and 2 000 log probabilities. */
const payload = () => ({ ids: new Int32Array(30_000).fill(7), logProbs: new Float32Array(2_000) });
const sharedPayload = () => ({
  ids: new Int32Array(new SharedArrayBuffer(120_000)),
  logProbs: new Float32Array(new SharedArrayBuffer(8_000)),
});

const batch = (count, run) => async () => {
  await Promise.all(Array.from({ length: count }, run));
  return count;
};

/** Cells of one caller and one actor, for each peer that can do them. */
export function cellsOf(open) {
  const each = (make) =>
    Object.fromEntries(
      Object.entries(open).flatMap(([name, peer]) => {
        const run = make(peer);
        return run === undefined ? [] : [[name, run]];
      }),
    );
  const shared = sharedPayload();
  return {
    "1_1_actor_calls_sync": each((peer) => async () => {
      await peer.empty();
      return 1;
    }),
    "100_in_flight": each((peer) => batch(100, () => peer.empty())),
    "1_1_actor_calls_async": each((peer) => batch(1000, () => peer.empty())),
    "128kB_copied": each((peer) => batch(20, () => peer.echo(payload()))),
    "128kB_moved": each((peer) => peer.moveBack && moved(peer)),
    "128kB_shared": each((peer) => batch(20, () => peer.echo(shared))),
    stream_window_16: each(
      (peer) =>
        peer.stream &&
        (async () => {
          await peer.stream(STREAM_ITEMS);
          return STREAM_ITEMS;
        }),
    ),
  };
}

/** The same buffers go to and fro: what a move costs, without what making them costs. */
function moved(peer) {
  let payloads = Array.from({ length: 20 }, payload);
  return async () => {
    payloads = await Promise.all(payloads.map((value) => peer.moveBack(value)));
    return payloads.length;
  };
}

/** Two submitters and two actors, 1000 calls each at a time. */
export async function nToN() {
  const runtime = await createRuntime({ logger: silent });
  const targets = await Promise.all(
    [0, 1].map(() => runtime.spawn(bench, undefined, { maxConcurrency: 2000 })),
  );
  const submitters = await Promise.all([0, 1].map(() => runtime.spawn(submitter, { targets })));
  const raw = await rawSubmitters();
  return {
    cells: {
      n_n_actor_calls_async: {
        raw: raw.run,
        corral: async () => {
          await Promise.all(submitters.map((ref) => ref.call.submit(1000)));
          return 2000;
        },
      },
    },
    close: async () => {
      await raw.close();
      await runtime.shutdown();
    },
  };
}

async function rawSubmitters() {
  const start = async (file) => {
    const worker = new Worker(new URL(`./workers/${file}`, import.meta.url));
    await once(worker, "online");
    return worker;
  };
  const targets = await Promise.all([0, 1].map(() => start("raw.mjs")));
  const submitters = await Promise.all([0, 1].map(() => start("raw-submitter.mjs")));
  for (const worker of submitters)
    for (const target of targets) {
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ port: port1 }, [port1]);
      target.postMessage({ port: port2 }, [port2]);
    }
  return {
    run: async () => {
      const done = submitters.map((worker) => once(worker, "message"));
      for (const worker of submitters) worker.postMessage({ calls: 1000 });
      await Promise.all(done);
      return 2000;
    },
    close: () => Promise.all([...targets, ...submitters].map((worker) => worker.terminate())),
  };
}

/** Stream items for each second of processor time, of all threads together, by repetition: what load cannot change. */
export async function streamItemsPerCpuSecond(peer, repetitions) {
  const items = 20 * STREAM_ITEMS;
  const rates = [];
  await peer.stream(items);
  for (let repetition = 0; repetition < repetitions; repetition++) {
    const before = process.cpuUsage();
    await peer.stream(items);
    const { user, system } = process.cpuUsage(before);
    rates.push((items / (user + system)) * 1e6);
  }
  return rates;
}

/** Milliseconds until an actor without imports is ready, of 15; and MiB of memory each, of 16 idle ones. */
export async function startAndMemory() {
  const runtime = await createRuntime({ logger: silent });
  const startMs = [];
  for (let index = 0; index < 15; index++) {
    const startedAt = performance.now();
    const ref = await runtime.spawn(bench, undefined);
    startMs.push(performance.now() - startedAt);
    await ref.kill();
  }
  const before = process.memoryUsage.rss();
  const refs = await Promise.all(Array.from({ length: 16 }, () => runtime.spawn(bench, undefined)));
  await Promise.all(refs.map((ref) => ref.call.empty()));
  const idleMiB = (process.memoryUsage.rss() - before) / 2 ** 20 / refs.length;
  await runtime.shutdown();
  return { startMs, idleMiB };
}
