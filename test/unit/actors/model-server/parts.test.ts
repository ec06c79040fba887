/** The small parts of a model server, each alone. */
import { describe, expect, test } from "vitest";
import { EmbeddedEngine } from "../../../../src/actors/model-server/engines/embedded.js";
import { startKeepAlive } from "../../../../src/actors/model-server/keep-alive.js";
import { parseModelServerOptions } from "../../../../src/actors/model-server/options.js";
import {
  Placeholders,
  withoutEdges,
} from "../../../../src/actors/model-server/renderers/placeholders.js";
import { authorise } from "../../../../src/actors/model-server/rollout-access.js";
import { presentsKey, rolloutKey } from "../../../../src/actors/model-server/rollout-key.js";
import { parseRolloutPath } from "../../../../src/actors/model-server/rollout-path.js";
import { Rollout, Rollouts } from "../../../../src/actors/model-server/rollouts.js";
import { callSeed, pinSampling } from "../../../../src/actors/model-server/sampling-pin.js";
import {
  mintCallId,
  servedMessageId,
  servedToolCallId,
} from "../../../../src/actors/model-server/served-ids.js";
import { serverSentEvent } from "../../../../src/actors/model-server/sse.js";
import type { Generation, PolicySnapshot } from "../../../../src/embedded-policy/index.js";
import { ManualClock } from "../../../support/manual-clock.js";
import { ACTOR_SETTINGS, SECRET } from "../../../support/model-server.js";

describe("rollout path", () => {
  test("P1. the prefix is split off as it was sent", () => {
    expect(parseRolloutPath("/v1/messages?beta=true")).toEqual({
      scope: "plain",
      path: "/v1/messages",
    });
    expect(parseRolloutPath("/ng-rollout/p0.1-2-a3/v1/messages")).toEqual({
      scope: "correlated",
      rolloutId: "p0.1-2-a3",
      path: "/v1/messages",
    });
    expect(parseRolloutPath("/ng-rollout/r/training-token-capture/v1/x?y#z")).toEqual({
      scope: "captured",
      rolloutId: "r",
      path: "/v1/x",
    });
    expect(parseRolloutPath("/ng-rollout/r/training-token-capture")).toMatchObject({
      scope: "captured",
      path: "",
    });
    expect(parseRolloutPath("/ng-rollout/r/training-token-captures/v1")).toMatchObject({
      scope: "correlated",
    });
    expect(parseRolloutPath("/ng-rollouts/x")).toMatchObject({ scope: "plain" });
  });

  test.each([
    "/ng-rollout",
    "/ng-rollout/",
    "/ng-rollout//v1",
    "/ng-rollout/%72",
    "/ng-rollout/a b",
    "/ng-rollout/é",
  ])("P1. %s is refused", (target) => {
    expect(() => parseRolloutPath(target)).toThrow(/malformed/);
  });

  test("P1. 200 characters are allowed, 201 are not", () => {
    expect(parseRolloutPath(`/ng-rollout/${"r".repeat(200)}`)).toMatchObject({
      scope: "correlated",
    });
    expect(() => parseRolloutPath(`/ng-rollout/${"r".repeat(201)}`)).toThrow(/malformed/);
  });
});

test("G1. a key is of one secret, one rollout and one epoch", () => {
  const key = rolloutKey(SECRET, "r1", 1);
  const others = [
    rolloutKey(new Uint8Array(32), "r1", 1),
    rolloutKey(SECRET, "r2", 1),
    rolloutKey(SECRET, "r1", 2),
  ];
  expect(others).not.toContain(key);
  expect(presentsKey({ "x-api-key": key }, key)).toBe(true);
  expect(presentsKey({ authorization: `bearer ${key}` }, key)).toBe(true);
  expect(presentsKey({ "x-api-key": "dummy", authorization: `Bearer ${key}` }, key)).toBe(true);
  for (const bad of ["", `${key}x`, key.slice(1), "é"])
    expect(presentsKey({ "x-api-key": bad }, key)).toBe(false);
  expect(presentsKey({}, key)).toBe(false);
});

test("G2. no refusal is 401", () => {
  const rollouts = new Rollouts({ maxInFlight: 1, maxModelCalls: 1 });
  rollouts.open({ rolloutId: "r1", epoch: 1, captured: true });
  const rules = { rollouts, keySecret: SECRET, requireRolloutKey: true, captureEnabled: true };
  for (const scope of ["captured", "correlated"] as const)
    for (const rolloutId of ["r1", "r2"]) {
      const refused = () => authorise({ scope, rolloutId, path: "" }, {}, rules);
      expect(refused).toThrow(expect.objectContaining({ status: 403 }));
    }
});

describe("rollouts", () => {
  const opening = { rolloutId: "r1", epoch: 1, captured: true };
  test("L2. every outcome is counted where it belongs", () => {
    const rollout = new Rollout(opening, { maxInFlight: 9, maxModelCalls: 9 });
    for (let i = 0; i < 4; i++) rollout.countStarted();
    rollout.countRecorded("c1", 5);
    rollout.countEnded("failed");
    rollout.countEnded("aborted");
    rollout.countCaptureLost();
    const before = rollout.ledger(2, 1);
    rollout.countUndelivered("c1");
    expect(rollout.ledger(2, 1)).toEqual({ ...before, undeliveredCallIds: ["c1"] });
    expect(before).toEqual({
      started: 4,
      recordedCallIds: ["c1"],
      failed: 1,
      aborted: 1,
      captureLost: 1,
      workerIndex: 2,
      workerGeneration: 1,
    });
  });

  test("L3. idle waits for the last running call", async () => {
    const rollout = new Rollout(opening, { maxInFlight: 9, maxModelCalls: 9 });
    const calls = [rollout.admit(), rollout.admit()];
    let idle = false;
    const waiting = rollout.idle().then(() => {
      idle = true;
    });
    calls[0]?.release();
    await Promise.resolve();
    expect(idle).toBe(false);
    calls[1]?.release();
    await waiting;
    await rollout.idle();
  });
});

test("overrides win over the request, the request over the defaults", () => {
  expect(pinSampling({ temperature: 0, top_k: 5 }, { temperature: 1, max_tokens: 9 }, 7)).toEqual({
    temperature: 1,
    top_p: 1,
    min_p: 0,
    top_k: 5,
    max_tokens: 9,
    seed: 7,
  });
  const seeds = [
    callSeed(1, "r", "c"),
    callSeed(2, "r", "c"),
    callSeed(1, "s", "c"),
    callSeed(1, "r", "d"),
  ];
  expect(new Set(seeds).size).toBe(4);
  expect(callSeed(1, "r", "c")).toBe(seeds[0]);
  for (const seed of seeds) expect(seed >>> 0).toBe(seed);
});

test("served ids are of their call and look like the API's", () => {
  const callId = mintCallId();
  const ids = [
    servedMessageId(callId, "msg_"),
    servedToolCallId(callId, 0, "toolu_"),
    servedToolCallId(callId, 1, "toolu_"),
    servedToolCallId(mintCallId(), 0, "toolu_"),
  ];
  expect(new Set(ids).size).toBe(4);
  expect(ids[0]).toMatch(/^msg_[0-9a-f]{24}$/);
  expect(ids[1]).toMatch(/^toolu_[0-9a-f]{24}$/);
});

test("V1. an event is one line by everybody's rules, and says what it was given", () => {
  const lineEnds = "\n\r\u000b\u000c\u001c\u001d\u001e\u0085\u2028\u2029";
  const event = serverSentEvent("e", { text: lineEnds });
  expect(event.slice(0, -2).split(new RegExp(`[${lineEnds}]`))).toHaveLength(2);
  expect(JSON.parse(event.slice(event.indexOf("{")))).toEqual({ text: lineEnds });
});

test("A1. keep-alive starts after its time, pings every 5 s, and stops", () => {
  const clock = new ManualClock();
  const events: string[] = [];
  const keepAlive = startKeepAlive(
    clock,
    100,
    () => events.push("start"),
    () => events.push("ping"),
  );
  clock.advance(99);
  expect(events).toEqual([]);
  clock.advance(1);
  clock.advance(10_000);
  expect(events).toEqual(["start", "ping", "ping", "ping"]);
  keepAlive.stop();
  clock.advance(60_000);
  expect(events).toHaveLength(4);
});

describe("placeholders", () => {
  const isLineBreak = (character: string) => character === "\n";

  test("H1. no content is taken for another's placeholder", () => {
    const placeholders = new Placeholders(isLineBreak);
    const first = placeholders.replace("evil");
    const second = placeholders.replace(first);
    expect(placeholders.split(`a${second}b${first}c`)).toEqual([
      { text: "a", isContent: false },
      { text: first, isContent: true },
      { text: "b", isContent: false },
      { text: "evil", isContent: true },
      { text: "c", isContent: false },
    ]);
  });

  test("H2. line breaks at the edges stay outside", () => {
    const replaced = new Placeholders(isLineBreak).replace("\n\na\nb\n");
    expect(replaced).toMatch(/^\n\n\w+\n$/);
    expect(new Placeholders(isLineBreak).replace("\n\n")).toBe("\n\n");
    expect(new Placeholders(isLineBreak).replace("")).toBe("");
    expect(withoutEdges("\n".repeat(1_000_000), isLineBreak)).toEqual([1_000_000, 1_000_000]);
  });

  test("a string within a value is its JSON text where the template writes JSON, else itself", () => {
    const placeholders = new Placeholders(isLineBreak);
    const inside = placeholders.replaceInValue('say "hi"');
    const rendered = `<${JSON.stringify(inside)}|${inside}>`;
    const texts = placeholders.split(rendered).map((piece) => piece.text);
    expect(texts).toEqual(["<", String.raw`"say \"hi\""`, "|", 'say "hi"', ">"]);
  });
});

describe("embedded engine", () => {
  const generation: Generation = {
    tokenIds: Int32Array.of(1),
    rawLogProbs: Float64Array.of(-2),
    processedLogProbs: Float64Array.of(-1),
    finishReason: "stop",
  };
  const snapshot: PolicySnapshot = { version: 4, digest: "d", weights: new Float64Array(1) };
  const sampling = { temperature: 1, top_p: 0.9, top_k: 2, min_p: 0, max_tokens: 3, seed: 5 };
  const request = (signal = new AbortController().signal) => ({
    promptIds: Int32Array.of(9),
    sampling,
    signal,
  });

  test("B1. the event loop runs between two calls, and an aborted call is not run", async () => {
    const order: string[] = [];
    const engine = new EmbeddedEngine(
      {
        generate: () => {
          order.push("call");
          setImmediate(() => order.push("loop"));
          return generation;
        },
      },
      snapshot,
    );
    const controller = new AbortController();
    const answers = [
      engine.generate(request()),
      engine.generate(request(controller.signal)),
      engine.generate(request()),
    ];
    controller.abort(new Error("gone"));
    const settled = await Promise.allSettled(answers);
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(order.slice(0, 3)).toEqual(["call", "loop", "call"]);
  });

  test("B2. a call samples its snapshot with the pinned parameters and names its version", async () => {
    const seen: unknown[] = [];
    const engine = new EmbeddedEngine(
      {
        generate: (...args) => {
          seen.push(args);
          return generation;
        },
      },
      snapshot,
    );
    expect(await engine.generate(request())).toEqual({
      tokenIds: Int32Array.of(1),
      logProbs: Float64Array.of(-1),
      logprobsMode: "processed",
      finishReason: "stop",
      policyVersionStart: 4,
      policyVersionEnd: 4,
    });
    expect(seen).toEqual([
      [snapshot, Int32Array.of(9), { temperature: 1, topP: 0.9, topK: 2, maxTokens: 3, seed: 5 }],
    ]);
  });
});

describe("options", () => {
  const options = {
    ...ACTOR_SETTINGS,
    engine: { kind: "embedded", policy: { version: 0, digest: "d", weights: new Float64Array(1) } },
    capture: { kind: "off" },
  };
  test("good ones pass", () => {
    expect(parseModelServerOptions(options)).toMatchObject({ host: "127.0.0.1", port: 0 });
  });
  test.each([
    [{ samplingOverrides: { temprature: 1 } }, /samplingOverrides: .*temprature/],
    [{ samplingOverrides: { top_p: 0 } }, /samplingOverrides\.top_p/],
    [{ keySecret: new Uint8Array(3) }, /keySecret: must be a Uint8Array of 32 bytes/],
    [{ capture: { kind: "store", store: null } }, /capture\.store/],
    [{ limits: { putTimeout: 1 } }, /limits: .*putTimeout/],
    [{ limits: { keepAliveAfterMs: 400_000 } }, /limits\.keepAliveAfterMs/],
    [{ maxModelCalls: 0 }, /maxModelCalls/],
    [{ extra: 1 }, /extra/],
  ])("%j is refused by name", (wrong, message) => {
    expect(() => parseModelServerOptions({ ...options, ...wrong })).toThrow(message);
  });
});
