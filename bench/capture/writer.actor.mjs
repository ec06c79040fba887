// A model-server worker as the store sees it: a sink of its own, and calls of several rollouts in flight.
import { BatchedWriter, StoreSink } from "corral/capture";
import { defineActor } from "corral/runtime";
import { callsOf } from "./workload.mjs";

class Writer {
  constructor({ store, index }) {
    this.store = store;
    this.index = index;
    this.sink = new StoreSink(new BatchedWriter(store.call));
  }

  /** Plays rollouts, `inFlight` at a time. Returns ms of each put, in the order of the calls of each rollout. */
  async play({ rollouts, inFlight, shape, prefix }) {
    let next = 0;
    const times = [];
    const lane = async () => {
      while (next < rollouts) {
        const rolloutId = `${prefix}-w${this.index}-${next++}`;
        await this.store.call.open(rolloutId);
        for (const entry of callsOf(rolloutId, shape, next)) {
          const before = performance.now();
          await this.sink.put(entry);
          times.push(performance.now() - before);
        }
      }
    };
    const start = performance.now();
    await Promise.all(Array.from({ length: inFlight }, lane));
    return { times: Float64Array.from(times), ms: performance.now() - start };
  }
}

export const writer = defineActor({
  module: import.meta.url,
  name: "writer",
  create: (options) => new Writer(options),
});
