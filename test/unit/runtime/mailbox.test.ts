import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Mailbox } from "../../../src/runtime/mailbox.js";

/** Work whose end the test decides. */
function handDriven() {
  const started: number[] = [];
  const ends = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  const work = (id: number) => () => {
    started.push(id);
    return new Promise<number>((resolve, reject) => {
      ends.set(id, { resolve: () => resolve(id), reject });
    });
  };
  return { started, ends, work };
}
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("Mailbox", () => {
  it("M1 M2 starts all work in order under any limit and any order of endings", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.tuple(fc.nat(), fc.boolean()), { maxLength: 30 }),
        async (limit, plan) => {
          const { started, ends, work } = handDriven();
          const mailbox = new Mailbox(limit);
          const results = plan.map((_, id) => mailbox.run(work(id)).catch(() => -1));
          for (const [choice, fails] of plan) {
            expect(mailbox.running).toBeLessThanOrEqual(limit);
            expect(mailbox.running).toBe(ends.size);
            const running = [...ends.keys()];
            const id = running[choice % running.length] as number;
            if (fails) ends.get(id)?.reject(new Error("failed"));
            else ends.get(id)?.resolve();
            ends.delete(id);
            await settle();
          }
          expect(started).toEqual(plan.map((_, id) => id));
          await Promise.all(results);
          expect([mailbox.running, mailbox.queued]).toEqual([0, 0]);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("M1 starts at once and synchronously when a place is free", () => {
    const { started, work } = handDriven();
    const mailbox = new Mailbox(1);
    void mailbox.run(work(0));
    expect(started).toEqual([0]);
    expect(mailbox.full).toBe(true);
  });

  it("M3 close rejects what waits, in order, and what comes; what runs goes on", async () => {
    const { started, ends, work } = handDriven();
    const mailbox = new Mailbox(1);
    const running = mailbox.run(work(0));
    const rejected: number[] = [];
    for (const id of [1, 2]) void mailbox.run(work(id)).catch(() => rejected.push(id));
    mailbox.close(() => new Error("closed"));
    await expect(mailbox.run(work(3))).rejects.toThrow("closed");
    ends.get(0)?.resolve();
    expect(await running).toBe(0);
    expect([started, rejected]).toEqual([[0], [1, 2]]);
  });

  it("whenIdle resolves when the last one has ended", async () => {
    const { ends, work } = handDriven();
    const mailbox = new Mailbox(1);
    void mailbox.run(work(0));
    let idle = false;
    const wait = mailbox.whenIdle().then(() => {
      idle = true;
    });
    await settle();
    expect(idle).toBe(false);
    ends.get(0)?.resolve();
    await wait;
    await new Mailbox(1).whenIdle();
  });

  it("takes work in constant time however much waits", async () => {
    const mailbox = new Mailbox(1);
    const order: number[] = [];
    const all = Array.from({ length: 5000 }, (_, id) =>
      mailbox.run(async () => void order.push(id)),
    );
    await Promise.all(all);
    expect(order).toEqual(Array.from({ length: 5000 }, (_, id) => id));
  });
});
