// A model-server worker as the store sees it: a sink of its own, and calls of several rollouts in flight.
import { BatchedWriter, StoreSink } from "corral/capture";
import { defineActor } from "corral/runtime";
import { callsOf, SHAPES } from "./workload.mjs";

class Writer {
  constructor({ store, index }) {
    this.store = store;
    this.index = index;
    this.sink = new StoreSink(new BatchedWriter(store.call));
  }

  /** Plays rollouts, `inFlight` at a time. Returns the ms of each put. */
  async play({ rollouts, inFlight, shape, prefix }) {
    let next = 0;
    const times = [];
    const lane = async () => {
      while (next < rollouts) {
        const rolloutId = `${prefix}-w${this.index}-${next++}`;
        await this.store.call.open(rolloutId);
        for (const entry of callsOf(rolloutId, shape, next)) times.push(await this.#put(entry));
      }
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
    return Float64Array.from(times);
  }

  /**
   * Puts of one long rollout around each of the calls named, each beside call 10 of a fresh rollout with as many new
   * tokens: minutes apart the disk would be another one. Returns [call, call 10][] for each.
   */
  async compare({ prefix, at, pairs }) {
    const found = [];
    let fresh = 0;
    await this.store.call.open(prefix);
    let call = 0;
    for (const entry of callsOf(prefix, SHAPES.endless, 1)) {
      const near = at.findIndex((middle) => Math.abs(call - middle + pairs / 2) < pairs / 2);
      const times = await this.#timed(entry);
      if (near >= 0)
        found[near] = [...(found[near] ?? []), [times, await this.#tenth(`${prefix}-${fresh++}`)]];
      call += 1;
    }
    return found;
  }

  async #tenth(rolloutId) {
    await this.store.call.open(rolloutId);
    let times;
    for (const entry of callsOf(rolloutId, { ...SHAPES.endless, calls: 10 }, 2))
      times = await this.#timed(entry);
    return times;
  }

  /** Intent and record of one call, as a model server writes them: the prompt is known before the engine works. */
  async #timed(entry) {
    const start = performance.now();
    await this.sink.beginCall(entry.rollout_id, entry.model_call_id, entry.prompt_token_ids);
    return { beginMs: performance.now() - start, putMs: await this.#put(entry) };
  }

  async #put(entry) {
    const before = performance.now();
    await this.sink.put(entry);
    return performance.now() - before;
  }
}

export const writer = defineActor({
  module: import.meta.url,
  name: "writer",
  create: (options) => new Writer(options),
});
