import { expect, test } from "vitest";
import { PolicyVersions } from "../../../../src/actors/model-server/policy-versions.js";
import { Rollouts } from "../../../../src/actors/model-server/rollouts.js";

test("P1. a call that overlaps an update carries both versions", () => {
  const versions = new PolicyVersions(3);
  const before = versions.track();
  const across = versions.track();
  expect(before()).toEqual({ start: 3, end: 3 });
  versions.begin(4);
  const within = versions.track();
  expect(within()).toEqual({ start: 3, end: 4 });
  versions.commit(4);
  expect(across()).toEqual({ start: 3, end: 4 });
  expect(versions.track()()).toEqual({ start: 4, end: 4 });
});

test("P1. an update that was given up leaves the version", () => {
  const versions = new PolicyVersions(0);
  versions.begin(1);
  versions.cancel(2);
  expect(versions.track()()).toEqual({ start: 0, end: 1 });
  versions.cancel(1);
  expect(versions.track()()).toEqual({ start: 0, end: 0 });
});

test("P2. versions only grow, one at a time", () => {
  const versions = new PolicyVersions(2);
  for (const version of [2, 1, -1, 2.5, Number.NaN])
    expect(() => versions.begin(version)).toThrow(RangeError);
  expect(() => versions.commit(3)).toThrow("was not begun");
  versions.begin(3);
  expect(() => versions.begin(4)).toThrow("is on its way");
  versions.commit(3);
  expect(versions.current).toBe(3);
});

test("L4. sealed rollouts are forgotten in the end, and their tokens stay counted", () => {
  const rollouts = new Rollouts({ maxInFlight: 1, maxModelCalls: 9 });
  const count = 3000;
  for (let index = 0; index < count; index++) {
    rollouts.open({ rolloutId: `r${index}`, epoch: 1, captured: true });
    const rollout = rollouts.get(`r${index}`);
    rollout?.countRecorded("call", 2);
    if (rollout !== undefined) rollouts.seal(rollout);
  }
  expect([...rollouts.all()].length).toBe(1024);
  expect(rollouts.get("r0")).toBeUndefined();
  expect(rollouts.get("r2999")?.ledger(0, 0).recordedCallIds).toEqual(["call"]);
  expect(rollouts.totals()).toEqual({ tokensRecorded: 2 * count, openRollouts: 0 });
});
