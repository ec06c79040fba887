// Dies in every way, noting the time of its last step in shared memory.
import { defineActor } from "corral/runtime";

const nowMs = () => performance.timeOrigin + performance.now();

class Victim {
  constructor(clock) {
    this.clock = clock;
  }
  wait() {
    return new Promise(() => {});
  }
  die(route) {
    const { clock } = this;
    if (route === "heap OOM") {
      const kept = [];
      for (;;) {
        kept.push(new Array(1000).fill(kept.length));
        clock[0] = nowMs();
      }
    }
    clock[0] = nowMs();
    if (route === "process.exit") process.exit(3);
    if (route === "infinite loop") for (;;);
    if (route === "timer throw")
      setTimeout(() => {
        clock[0] = nowMs();
        throw new Error("late");
      });
    if (route === "unhandled rejection") void Promise.reject(new Error("unheard"));
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
