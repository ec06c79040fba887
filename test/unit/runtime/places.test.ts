/** Limits that several callers keep together: a model of them, run in every order. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Arbiter, type Claimant } from "../../../src/runtime/arbiter.js";
import { Fifo } from "../../../src/runtime/fifo.js";
import { Gate } from "../../../src/runtime/gate.js";
import { PENDING_CELLS } from "../../../src/runtime/protocol.js";
import { Places, sharedCells } from "../../../src/runtime/shared-places.js";

const GROUP = 1;

/** One caller of the model: its messages lie in two queues until a step delivers them. */
class Caller implements Claimant {
  readonly gate = new Gate<{ key: number }>();
  readonly held = sharedCells(1);
  readonly toActor: ("want" | "freed" | { key: number })[] = [];
  readonly grants: number[] = [];
  readonly entered: number[] = [];
  readonly sent: number[] = [];
  readonly #places: Places;

  constructor(limit: number, taken: Int32Array) {
    this.#places = new Places(limit, { cells: taken, at: 0 }, { cells: this.held, at: 0 });
    const lane = { want: () => this.toActor.push("want"), freed: () => this.toActor.push("freed") };
    this.gate.open(lane, this.#places);
  }
  places(): Places {
    return this.#places;
  }
  grant(): void {
    this.grants.push(GROUP);
  }
  enter(key: number): void {
    this.entered.push(key);
    const item = { key };
    if (this.gate.enter(item)) this.send(item);
  }
  send(item: { key: number }): void {
    this.sent.push(item.key);
    this.toActor.push(item);
  }
}

type Step = { readonly caller: number; readonly act: "enter" | "toActor" | "grant" | "finish" };

function run(limit: number, steps: Step[]): { most: number; callers: Caller[] } {
  const taken = sharedCells(1);
  const arbiter = new Arbiter(2, sharedCells(PENDING_CELLS.count));
  const callers = [0, 1, 2].map(() => new Caller(limit, taken));
  let running = 0;
  let most = 0;
  let key = 0;
  const deliver = (caller: Caller): void => {
    const message = caller.toActor.shift();
    if (message === undefined) return;
    if (message === "want") arbiter.want(caller, GROUP);
    else if (message === "freed") arbiter.serve(GROUP);
    else {
      caller.places().handOver();
      running += 1;
      most = Math.max(most, running);
    }
  };
  const grant = (caller: Caller): void => {
    if (caller.grants.shift() === undefined) return;
    const item = caller.gate.granted();
    if (item !== undefined) caller.send(item);
  };
  const finish = (): void => {
    if (running === 0) return;
    running -= 1;
    if (!arbiter.pass(GROUP)) Atomics.sub(taken, 0, 1);
  };
  for (const step of steps) {
    const caller = callers[step.caller] as Caller;
    if (step.act === "enter") caller.enter(key++);
    else if (step.act === "toActor") deliver(caller);
    else if (step.act === "grant") grant(caller);
    else finish();
    expect(taken[0]).toBeLessThanOrEqual(limit);
  }
  // Everything is delivered and ended: nobody may be left waiting.
  for (let quiet = false; !quiet; ) {
    quiet =
      running === 0 && callers.every(({ toActor, grants }) => toActor.length + grants.length === 0);
    for (const caller of callers) {
      deliver(caller);
      grant(caller);
    }
    finish();
  }
  expect(taken[0]).toBe(0);
  for (const { held } of callers) expect(held[0]).toBe(0);
  return { most, callers };
}

const steps = fc.array(
  fc.record({
    caller: fc.nat(2),
    act: fc.constantFrom<Step["act"]>("enter", "enter", "toActor", "grant", "finish"),
  }),
  { maxLength: 80 },
);

describe("places", () => {
  it("H1 H2 G1 hold in every order of events: the limit, each caller's order, and nobody is forgotten", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), steps, (limit, order) => {
        const { most, callers } = run(limit, order);
        expect(most).toBeLessThanOrEqual(limit);
        for (const { entered, sent } of callers) expect(sent).toEqual(entered);
      }),
    );
  });

  it("B1 a freed place goes to the caller that has waited longest, not to the one that asks first", () => {
    const taken = sharedCells(1);
    const arbiter = new Arbiter(2, sharedCells(PENDING_CELLS.count));
    const [greedy, patient, late] = [0, 1, 2].map(() => new Caller(1, taken)) as [
      Caller,
      Caller,
      Caller,
    ];
    greedy.enter(0);
    patient.enter(1);
    arbiter.want(patient, GROUP);
    late.enter(2);
    arbiter.want(late, GROUP);
    greedy.enter(3);
    greedy.places().handOver();
    expect(arbiter.pass(GROUP)).toBe(true);
    expect([patient.grants.length, late.grants.length, greedy.grants.length]).toEqual([1, 0, 0]);
    greedy.enter(4);
    expect(greedy.sent).toEqual([0]);
  });

  it("B2 G3 a caller that is gone gets nothing, and an unused grant goes on to the next", () => {
    const taken = sharedCells(1);
    const arbiter = new Arbiter(2, sharedCells(PENDING_CELLS.count));
    const [first, gone, next] = [0, 1, 2].map(() => new Caller(1, taken)) as [
      Caller,
      Caller,
      Caller,
    ];
    first.enter(0);
    gone.enter(1);
    next.enter(2);
    arbiter.want(gone, GROUP);
    arbiter.want(next, GROUP);
    arbiter.forget(gone);
    first.places().handOver();
    expect(arbiter.pass(GROUP)).toBe(true);
    expect([gone.grants.length, next.grants.length]).toEqual([0, 1]);
    const [item] = next.gate.takeAll();
    expect(item).toEqual({ key: 2 });
    expect(next.gate.granted()).toBeUndefined();
    expect([taken[0], next.toActor.at(-1)]).toEqual([0, "freed"]);
  });

  it("H2 what a dead caller held is given back, once", () => {
    const taken = sharedCells(1);
    const caller = new Caller(5, taken);
    caller.enter(0);
    caller.enter(1);
    caller.places().giveBackAll();
    caller.places().giveBackAll();
    expect([taken[0], caller.held[0]]).toEqual([0, 0]);
  });

  it("G2 a closed gate keeps what waits, and retries go first", () => {
    const gate = new Gate<{ key: number }>();
    for (const key of [3, 4]) gate.enter({ key });
    gate.close([{ key: 1 }, { key: 2 }]);
    const taken = sharedCells(1);
    const caller = new Caller(3, taken);
    const through = gate.open(
      { want: () => caller.toActor.push("want"), freed: () => {} },
      caller.places(),
    );
    expect(through.map(({ key }) => key)).toEqual([1, 2, 3]);
    expect(caller.toActor).toEqual(["want"]);
    expect(gate.queued).toBe(1);
  });
});

describe("Fifo", () => {
  it("is an array with push, pushFront, shift, remove and takeAll", () => {
    const operation = fc.oneof(
      fc.constant("push" as const),
      fc.constant("pushFront" as const),
      fc.constant("shift" as const),
      fc.constant("peek" as const),
      fc.constant("takeAll" as const),
      fc.nat(20),
    );
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 300 }), (operations) => {
        const fifo = new Fifo<{ n: number }>();
        let model: { n: number }[] = [];
        operations.forEach((act, n) => {
          const item = { n };
          if (act === "push") {
            fifo.push(item);
            model.push(item);
          } else if (act === "pushFront") {
            fifo.pushFront([item]);
            model.unshift(item);
          } else if (act === "shift") expect(fifo.shift()).toBe(model.shift());
          else if (act === "peek") expect(fifo.peek()).toBe(model[0]);
          else if (act === "takeAll") {
            expect(fifo.takeAll()).toEqual(model);
            model = [];
          } else {
            const removed = model[act];
            if (removed === undefined) return;
            fifo.remove(removed);
            model.splice(act, 1);
          }
          expect(fifo.size).toBe(model.length);
        });
      }),
    );
  });
});
