// One adapter for each library: the same operations, in the way its own documentation shows.
import { once } from "node:events";
import { MessageChannel, Worker } from "node:worker_threads";
import * as Comlink from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { createRuntime, move } from "corral/runtime";
import { Piscina } from "piscina";
import { Tinypool } from "tinypool";
import { bench } from "./workers/bench.actor.mjs";

const workers = (file) => new URL(`./workers/${file}`, import.meta.url);
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const IN_FLIGHT = 1000;

/** @typedef {{ empty(): Promise<unknown>, echo(value: object): Promise<unknown>, moveBack?(value: object): Promise<unknown>, stream?(items: number): Promise<void>, close(): Promise<unknown> }} Peer */

/** @returns {Promise<Peer>} */
async function raw() {
  const worker = new Worker(workers("raw.mjs"));
  await once(worker, "online");
  const open = new Map();
  let lastId = 0;
  worker.on("message", ({ id, value }) => {
    open.get(id)(value);
    open.delete(id);
  });
  const send = (value, transfer) =>
    new Promise((resolve) => {
      const id = ++lastId;
      open.set(id, resolve);
      worker.postMessage({ id, value, move: transfer !== undefined }, transfer);
    });
  return {
    empty: () => send(undefined),
    echo: (value) => send(value),
    moveBack: (value) => send(value, [value.ids.buffer, value.logProbs.buffer]),
    stream: (items) =>
      new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        let taken = 0;
        port1.on("message", (item) => {
          if (item === -1) return resolve();
          if (++taken % 8 === 0) port1.postMessage(8);
        });
        worker.postMessage({ stream: { port: port2, items, window: 16 } }, [port2]);
      }),
    close: () => worker.terminate(),
  };
}

/** @returns {Promise<Peer>} */
async function comlink() {
  const worker = new Worker(workers("comlink.mjs"));
  const remote = Comlink.wrap(nodeEndpoint(worker));
  return {
    empty: () => remote.empty(),
    echo: (value) => remote.echo(value),
    moveBack: (value) =>
      remote.moveBack(Comlink.transfer(value, [value.ids.buffer, value.logProbs.buffer])),
    close: () => worker.terminate(),
  };
}

/** @returns {Promise<Peer>} */
async function piscina() {
  const pool = new Piscina({
    filename: workers("task.mjs").href,
    minThreads: 1,
    maxThreads: 1,
    concurrentTasksPerWorker: IN_FLIGHT,
  });
  return {
    empty: () => pool.run(undefined, { name: "empty" }),
    echo: (value) => pool.run(value, { name: "echo" }),
    close: () => pool.destroy(),
  };
}

/** @returns {Promise<Peer>} */
async function tinypool() {
  const pool = new Tinypool({
    filename: workers("task.mjs").href,
    minThreads: 1,
    maxThreads: 1,
    concurrentTasksPerWorker: IN_FLIGHT,
  });
  return {
    empty: () => pool.run(undefined, { name: "empty" }),
    echo: (value) => pool.run(value, { name: "echo" }),
    close: () => pool.destroy(),
  };
}

/** @returns {Promise<Peer>} */
async function corral() {
  const runtime = await createRuntime({ logger: silent });
  const ref = await runtime.spawn(bench, undefined, { maxConcurrency: IN_FLIGHT });
  const { call, stream } = ref;
  return {
    empty: () => call.empty(),
    echo: (value) => call.echo(value),
    moveBack: (value) => {
      move(value.ids);
      move(value.logProbs);
      return call.moveBack(value);
    },
    stream: async (items) => {
      for await (const _item of stream.count(items));
    },
    close: () => runtime.shutdown(),
  };
}

/** Raw postMessage is what the others are measured against. */
export const peers = { raw, corral, comlink, piscina, tinypool };
