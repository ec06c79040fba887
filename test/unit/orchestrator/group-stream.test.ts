import fc from "fast-check";
import { expect, test } from "vitest";
import type { DeliveryReport, RolloutSlot } from "../../../src/actors/index.js";
import { AgentGates } from "../../../src/orchestrator/agent-gates.js";
import {
  GroupStream,
  type SlotPlan,
  type StreamControl,
} from "../../../src/orchestrator/group-stream.js";

const report = (slot: RolloutSlot) =>
  ({ slot, rolloutId: `${slot.taskIndex}-${slot.rolloutIndex}` }) as DeliveryReport;

/** Slots whose work ends when the test says so. */
class Bench {
  readonly running = new Map<string, (value: DeliveryReport | undefined | Error) => void>();
  readonly started: string[] = [];
  most = 0;

  plan(taskIndex: number, rolloutIndex: number, agent: string | null = "a"): SlotPlan {
    const slot = { pass: 1, taskIndex, rolloutIndex };
    const id = `${taskIndex}-${rolloutIndex}`;
    const work = ({ signal }: StreamControl) =>
      new Promise<DeliveryReport | undefined>((resolve, reject) => {
        this.started.push(id);
        this.running.set(id, (value) => {
          this.running.delete(id);
          if (value instanceof Error) reject(value);
          else resolve(value);
        });
        this.most = Math.max(this.most, this.running.size);
        signal.addEventListener("abort", () => this.running.get(id)?.(undefined));
      });
    return { slot, agent, work };
  }

  end(taskIndex: number, rolloutIndex: number): void {
    const slot = { pass: 1, taskIndex, rolloutIndex };
    this.running.get(`${taskIndex}-${rolloutIndex}`)?.(report(slot));
  }
}

function groups(bench: Bench, count: number, size: number, places: number, concurrency = places) {
  const plans = Array.from({ length: count }, (_, task) => ({
    about: task,
    slots: Array.from({ length: size }, (_, index) => bench.plan(task, index)),
  }));
  return new GroupStream(plans, { gates: new AgentGates({ a: places }), concurrency });
}

/** Lets every promise that can settle do so. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

test("groups come when they are full, in any order, their rollouts in order", async () => {
  const bench = new Bench();
  const iterator = groups(bench, 2, 2, 4)[Symbol.asyncIterator]();
  const first = iterator.next();
  bench.end(1, 1);
  bench.end(1, 0);
  const { value } = await first;
  expect(value).toMatchObject({ about: 1 });
  expect(value?.reports.map(({ rolloutId }) => rolloutId)).toEqual(["1-0", "1-1"]);
  const second = iterator.next();
  bench.end(0, 0);
  bench.end(0, 1);
  expect((await second).value).toMatchObject({ about: 0 });
  expect((await iterator.next()).done).toBe(true);
});

test("G1. no group begins while as many rollouts wait to be taken as may run", async () => {
  const bench = new Bench();
  const iterator = groups(bench, 10, 2, 2)[Symbol.asyncIterator]();
  const first = iterator.next();
  for (const task of [0, 1, 2]) {
    await settle();
    bench.end(task, 0);
    bench.end(task, 1);
  }
  expect((await first).value).toMatchObject({ about: 0 });
  await settle();
  // Group 0 is taken, group 1 waits, group 2 began before it did: group 3 does not begin.
  expect(bench.started).not.toContain("3-0");
  await iterator.next();
  await iterator.next();
  await settle();
  expect(bench.started).toContain("3-0");
  await iterator.return(undefined);
});

test("G2. leaving cancels what runs, and what was delivered and not taken is left", async () => {
  const bench = new Bench();
  const stream = groups(bench, 3, 1, 3);
  const iterator = stream[Symbol.asyncIterator]();
  const first = iterator.next();
  bench.end(0, 0);
  bench.end(1, 0);
  await first;
  await iterator.return(undefined);
  expect(bench.running.size).toBe(0);
  expect(stream.left.map(({ rolloutId }) => rolloutId)).toEqual(["1-0"]);
});

test("G3. a failure of one slot ends the iteration and cancels the others", async () => {
  const bench = new Bench();
  const stream = groups(bench, 2, 2, 4);
  const iterator = stream[Symbol.asyncIterator]();
  const first = iterator.next();
  bench.running.get("0-0")?.(new Error("no disk"));
  await expect(first).rejects.toThrow("no disk");
  expect(bench.running.size).toBe(0);
});

test("G3. a stop ends the iteration when what runs has ended", async () => {
  const bench = new Bench();
  const stream = groups(bench, 3, 1, 1);
  const iterator = stream[Symbol.asyncIterator]();
  const first = iterator.next();
  stream.stop({ cancel: false });
  bench.end(0, 0);
  expect((await first).value).toMatchObject({ about: 0 });
  expect((await iterator.next()).done).toBe(true);
  expect(bench.started).toEqual(["0-0"]);
});

test("two streams share the places of an agent", async () => {
  const bench = new Bench();
  const gates = new AgentGates({ a: 1 });
  const one = new GroupStream([{ about: 0, slots: [bench.plan(0, 0)] }], { gates, concurrency: 9 });
  const two = new GroupStream([{ about: 1, slots: [bench.plan(1, 0)] }], { gates, concurrency: 9 });
  const first = one[Symbol.asyncIterator]().next();
  const second = two[Symbol.asyncIterator]().next();
  expect([...bench.running.keys()]).toEqual(["0-0"]);
  bench.end(0, 0);
  await first;
  bench.end(1, 0);
  expect((await second).value).toMatchObject({ about: 1 });
});

test("every slot is worked once, whatever the order of ends, within the limits", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 5 }),
      fc.infiniteStream(fc.nat()),
      async (count, size, places, concurrency, picks) => {
        const bench = new Bench();
        const stream = groups(bench, count, size, places, concurrency);
        const seen: number[] = [];
        const walk = (async () => {
          for await (const { about, reports } of stream) {
            expect(reports).toHaveLength(size);
            seen.push(about);
          }
        })();
        for (let done = 0; done < count * size; done++) {
          while (bench.running.size === 0) await settle();
          const ids = [...bench.running.keys()];
          const [task, index] = (ids[picks.next().value % ids.length] ?? "").split("-").map(Number);
          bench.end(task ?? 0, index ?? 0);
          await settle();
        }
        await walk;
        expect(seen.sort()).toEqual(Array.from({ length: count }, (_, index) => index));
        expect(new Set(bench.started).size).toBe(bench.started.length);
        expect(bench.most).toBeLessThanOrEqual(Math.min(places, concurrency));
      },
    ),
    { numRuns: 100 },
  );
});
