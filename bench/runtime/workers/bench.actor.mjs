import { defineActor, move } from "corral/runtime";

class Bench {
  empty() {}
  echo(value) {
    return value;
  }
  moveBack(value) {
    move(value.ids);
    move(value.logProbs);
    return value;
  }
  *count(items) {
    for (let item = 0; item < items; item++) yield item;
  }
}

export const bench = defineActor({
  module: import.meta.url,
  name: "bench",
  create: () => new Bench(),
});

class Submitter {
  constructor(targets) {
    this.targets = targets;
  }
  async submit(calls) {
    const { targets } = this;
    await Promise.all(
      Array.from({ length: calls }, (_, index) => targets[index % targets.length].call.empty()),
    );
  }
}

export const submitter = defineActor({
  module: import.meta.url,
  name: "submitter",
  create: ({ targets }) => new Submitter(targets),
});
