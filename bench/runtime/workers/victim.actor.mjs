import { defineActor } from "corral/runtime";
import { die } from "./die.mjs";

class Victim {
  constructor(clock) {
    this.clock = clock;
  }
  wait() {
    return new Promise(() => {});
  }
  die(route) {
    die(route, this.clock);
    return this.wait();
  }
}

export const victim = defineActor({
  module: import.meta.url,
  name: "victim",
  create: ({ clock }) => new Victim(clock),
});

class Holder {
  constructor(ref) {
    this.ref = ref;
  }
  async watch() {
    await this.ref.call.wait().catch(() => {});
  }
}

export const holder = defineActor({
  module: import.meta.url,
  name: "holder",
  create: ({ ref }) => new Holder(ref),
});
