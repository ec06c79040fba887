/** Each check of the conformance suite passes on what keeps the contract and fails on what breaks its sentence. */
import { describe, expect, test } from "vitest";
import {
  type ConformanceSubject,
  runConformance,
  StoreSink,
  TokenCaptureStore,
} from "../../../src/capture/index.js";
import { temporaryDirectory } from "../../support/capture.js";
import { MemoryDataPlane } from "../../support/memory-data-plane.js";

const NAMES = [
  "sink.methods",
  "source.methods",
  "put.visible-at-once",
  "put.exact",
  "put.rollouts-apart",
  "put.same-again",
  "put.conflict",
  "put.two-workers",
  "put.one-winner",
  "mark.incomplete",
  "mark.after-freeze",
  "intent.dangling",
  "intent.ended",
  "freeze.idempotent",
  "freeze.unseen",
  "freeze.late-put",
  "drop.exact",
  "drop.tombstone",
  "close.idempotent",
  "open.only-dispatch",
  "reset.forgets",
  "reset.stale-put",
  "reset.frozen",
  "lineage.visible-at-once",
  "lineage.tool-call-ids",
  "lineage.text",
  "lineage.rollouts-apart",
  "lineage.node",
  "lineage.cumulative-ids",
];

const subject = (plane: MemoryDataPlane) => plane as unknown as ConformanceSubject;

describe("the suite", () => {
  test("passes on a data plane that keeps every contract", async () => {
    expect(await runConformance(subject(new MemoryDataPlane()))).toEqual(NAMES);
  });

  test.each(NAMES)("F1 %s can fail: a data plane that breaks it is found by it", async (name) => {
    await expect(runConformance(subject(new MemoryDataPlane(name)))).rejects.toMatchObject({
      name: "CaptureError",
      code: "CONFORMANCE_FAILED",
      message: expect.stringMatching(
        new RegExp(`^conformance: ${name.replaceAll(".", "\\.")}: \\S`),
      ),
    });
  });

  test("F1 an adapter that never answers fails the check it hangs in", async () => {
    const plane = new MemoryDataPlane();
    const makeSink = () =>
      Object.assign(plane.makeSink(), { put: () => new Promise<void>(() => {}) });
    const hanging = { ...subject(plane), makeSink } as ConformanceSubject;
    await expect(runConformance(hanging, { timeoutMs: 20 })).rejects.toThrow(
      "conformance: put.visible-at-once: sink.put did not answer within 20 ms",
    );
  });

  test("leaves out what an adapter does not have", async () => {
    const plane = new MemoryDataPlane();
    const without = (client: object, ...names: string[]) =>
      Object.assign(client, Object.fromEntries(names.map((name) => [name, undefined])));
    const bare = {
      makeSink: () => without(plane.makeSink(), "beginCall", "endCall", "reset"),
      makeSource: plane.makeSource,
    } as unknown as ConformanceSubject;
    const optional = /^(intent|reset|lineage)\./;
    expect(await runConformance(bare)).toEqual(NAMES.filter((name) => !optional.test(name)));
  });

  test("F2 two runs on one data plane do not meet", async () => {
    const plane = new MemoryDataPlane();
    await runConformance(subject(plane));
    await runConformance(subject(plane));
  });
});

describe("our own store", () => {
  test("conforms, each client a connection of its own", async () => {
    const dir = temporaryDirectory();
    const make = () => new TokenCaptureStore({ dir });
    expect(await runConformance({ makeSink: make, makeSource: make, makeLineage: make })).toEqual(
      NAMES,
    );
  });

  test("conforms through sinks over one writer", async () => {
    const dir = temporaryDirectory();
    const store = new TokenCaptureStore({ dir });
    const makeSink = () =>
      Object.assign(new StoreSink(store), { open: (id: string) => store.open(id) });
    const makeSource = () => new TokenCaptureStore({ dir });
    const passed = await runConformance({ makeSink, makeSource, makeLineage: makeSource });
    expect(passed).toEqual(NAMES);
    await store.close();
  });
});
