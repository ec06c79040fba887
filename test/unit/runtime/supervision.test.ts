/** When an actor is restarted, and when it is taken for hung: with given times. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HangWatch } from "../../../src/runtime/hang-watch.js";
import { RestartPolicy } from "../../../src/runtime/restart-policy.js";

const options = {
  maxRestarts: 3,
  windowMs: Number.POSITIVE_INFINITY,
  minBackoffMs: 100,
  maxBackoffMs: 1000,
};

describe("RestartPolicy", () => {
  it("R4a never grants more than maxRestarts within any window", () => {
    const deaths = fc.array(fc.nat(500), { maxLength: 60 });
    fc.assert(
      fc.property(
        fc.nat(5),
        fc.integer({ min: 1, max: 2000 }),
        deaths,
        (maxRestarts, windowMs, gaps) => {
          const policy = new RestartPolicy({ ...options, maxRestarts, windowMs });
          const granted: number[] = [];
          let nowMs = 0;
          for (const gap of gaps) {
            nowMs += gap;
            if (policy.next(nowMs) !== undefined) granted.push(nowMs);
            const recent = granted.filter((time) => nowMs - time < windowMs);
            expect(recent.length).toBeLessThanOrEqual(maxRestarts);
          }
        },
      ),
    );
  });

  it("R4a without a window all restarts count, and no limit means no limit", () => {
    const policy = new RestartPolicy(options);
    expect([0, 1e6, 2e6, 3e6].map((nowMs) => policy.next(nowMs) !== undefined)).toEqual([
      true,
      true,
      true,
      false,
    ]);
    const endless = new RestartPolicy({ ...options, maxRestarts: Number.POSITIVE_INFINITY });
    for (let death = 0; death < 100; death++) expect(endless.next(death)).toBeDefined();
  });

  it("R4b the wait doubles up to its maximum, and is cut by at most a half", () => {
    const waits = (random: number) => {
      const policy = new RestartPolicy({ ...options, maxRestarts: 6 }, () => random);
      return [0, 1, 2, 3, 4, 5].map((nowMs) => policy.next(nowMs));
    };
    expect(waits(0)).toEqual([100, 200, 400, 800, 1000, 1000]);
    expect(waits(0.5)).toEqual([75, 150, 300, 600, 750, 750]);
  });

  it("R4c after a calm time the wait is short again", () => {
    const policy = new RestartPolicy({ ...options, maxRestarts: 6 }, () => 0);
    expect([0, 10, 2011, 2020].map((nowMs) => policy.next(nowMs))).toEqual([100, 200, 100, 200]);
  });
});

describe("HangWatch", () => {
  const INTERVAL = 100;
  const watch = () => new HangWatch(300, INTERVAL, 0);

  it("R6a calls a thread hung that is busy and silent for the timeout", () => {
    const hung = watch();
    expect([100, 200, 300].map((nowMs) => hung.isHung(nowMs, 1))).toEqual([false, false, true]);
  });

  it("R6a a pong or an idle event loop starts the time anew", () => {
    const talking = watch();
    const idle = watch();
    for (let nowMs = 100; nowMs < 5000; nowMs += INTERVAL) {
      if (nowMs % 300 === 0) talking.onPong();
      expect(talking.isHung(nowMs, 1)).toBe(false);
      expect(idle.isHung(nowMs, nowMs % 300 === 0 ? 0.5 : 1)).toBe(false);
    }
  });

  it("R6b time in which the watching thread was blocked does not count, however it is cut up", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 100, max: 60_000 }), { minLength: 1, maxLength: 40 }),
        (ticks) => {
          const blocked = watch();
          let nowMs = 0;
          let counted = 0;
          for (const lateMs of ticks) {
            nowMs += lateMs;
            counted += INTERVAL;
            // Hung only after as many ticks as the timeout has intervals, whatever the clock says.
            expect(blocked.isHung(nowMs, 1)).toBe(counted >= 300);
          }
        },
      ),
    );
    const answered = watch();
    for (let tick = 1; tick < 20; tick++) {
      // The pong of the last ping waited in line while this thread was blocked; it is heard before the next tick.
      answered.onPong();
      expect(answered.isHung(tick * 10_000, 1)).toBe(false);
    }
  });
});
