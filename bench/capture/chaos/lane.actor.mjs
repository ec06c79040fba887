// A model-server worker that is about to be killed: rollouts from open to freeze and drop, several at a time, every
// step said before it is taken and every answer as soon as it is there.
import { writeSync } from "node:fs";
import { BatchedWriter, StoreSink } from "corral/capture";
import { defineActor } from "corral/runtime";
import { callsOf } from "../workload.mjs";

const SHAPE = { calls: 12, firstPrompt: 400, perCall: 80, generated: 40 };

/** One write call: whole in the pipe or not there. */
function say(...words) {
  writeSync(1, `${words.join(" ")}\n`);
}

class Lanes {
  constructor({ store, index }) {
    this.store = store.call;
    this.index = index;
    this.sink = new StoreSink(new BatchedWriter(store.call));
  }

  /** Never resolves: the process is killed. */
  async run(lanes) {
    await Promise.all(Array.from({ length: lanes }, (_, lane) => this.#lane(lane)));
  }

  async #lane(lane) {
    for (let n = 0; ; n += 1) {
      const id = `w${this.index}-${lane}-${n}`;
      say("opening", id);
      await this.store.open(id);
      say("opened", id);
      for (const entry of callsOf(id, SHAPE, 1 + n + 1000 * lane)) await this.#call(id, entry);
      say("freezing", id);
      const snapshot = await this.store.freeze(id);
      say("frozen", id, snapshot.incomplete ? "incomplete" : "complete");
      if (n % 2 === 0) continue;
      say("dropping", id);
      if (await this.store.drop(id, snapshot)) say("dropped", id);
    }
  }

  async #call(id, entry) {
    const call = entry.model_call_id;
    say("beginning", id, call);
    const begun = this.sink.beginCall(id, call, entry.prompt_token_ids);
    // An engine that answers at once: intent and record go to the writer together.
    if (Math.random() < 0.5) {
      await Promise.all([begun, this.sink.put(entry)]);
      say("put", id, call);
      return;
    }
    await begun;
    if (Math.random() < 0.1) {
      await this.sink.endCall(id, call, "failed");
      say("ended", id, call);
      return;
    }
    await this.sink.put(entry);
    say("put", id, call);
  }
}

export const lanes = defineActor({
  module: import.meta.url,
  name: "lanes",
  create: (options) => new Lanes(options),
});
