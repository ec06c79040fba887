/** What a captured call records, over HTTP, and what becomes of it when something fails. */
import { describe, expect, test } from "vitest";
import type { CaptureClient } from "../../src/actors/model-server/capture-client.js";
import type { TokenCaptureStore, TokenEntry } from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import { ManualClock } from "../support/manual-clock.js";
import { parseEvents, readMessage, type StreamedMessage } from "../support/messages-stream.js";
import {
  emitted,
  keyHeaders,
  never,
  postMessages,
  type RunningServer,
  recordedRequests,
  ScriptedEngine,
  startServer,
  storeCapture,
  toolCallText,
  userRequest,
} from "../support/model-server.js";

interface Rollout extends RunningServer {
  readonly store: TokenCaptureStore;
  readonly headers: Record<string, string>;
  call(body: unknown, more?: { signal?: AbortSignal }): Promise<Response>;
  say(body: object): Promise<StreamedMessage>;
}

async function rolloutOn(
  store: TokenCaptureStore,
  parts: { engine?: ScriptedEngine; capture?: CaptureClient; clock?: ManualClock } = {},
  settings: Parameters<typeof startServer>[1] = {},
): Promise<Rollout> {
  const running = await startServer({ capture: storeCapture(store), ...parts }, settings);
  const epoch = 1;
  running.server.openRollout({ rolloutId: "r1", epoch, captured: true });
  const headers = keyHeaders("r1", epoch);
  const call = (body: unknown, more = {}) => postMessages(running.base("r1"), body, headers, more);
  const say = async (body: object) =>
    readMessage(parseEvents(await (await call({ ...body, stream: true })).text()));
  return { ...running, store, headers, call, say };
}

async function openStore(): Promise<TokenCaptureStore> {
  const { store } = temporaryStore();
  expect(await store.open("r1")).toEqual({ epoch: 1 });
  return store;
}

const SHORT_PUT = { limits: { putTimeoutMs: 3210 } };

/** The engine was asked, and the call's intent is on the disk. */
async function begun(engine: ScriptedEngine, clock: ManualClock): Promise<void> {
  await engine.asked(1);
  await clock.noTimerOf(SHORT_PUT.limits.putTimeoutMs);
}

const TOOLS = [
  {
    name: "Bash",
    description: "run",
    input_schema: { type: "object", properties: { command: {} } },
  },
];
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const body = (messages: readonly object[], more: object = {}) => ({
  model: "policy",
  max_tokens: 64,
  system: [
    { type: "text", text: "x-anthropic-billing-header: cch=36ee5;" },
    { type: "text", text: "agent" },
  ],
  tools: TOOLS,
  messages,
  ...more,
});

const joined = (entry: TokenEntry) => [...entry.prompt_token_ids, ...entry.generation_token_ids];

test("M1. call 2, on another worker, extends call 1's ids exactly, and encodes only what follows", async () => {
  const store = await openStore();
  // `fish` + `ing`: re-encoding the text would give other ids.
  const drifted = Int32Array.of(
    ...(await emitted("hel")),
    ...(await emitted("lo")),
    ...(await emitted(`\n${toolCallText("Bash", { timeout: "5000", command: "ls" })}<|im_end|>`)),
  );
  const a = await rolloutOn(store, {
    engine: new ScriptedEngine([async () => ({ tokenIds: drifted })]),
  });
  const b = await rolloutOn(store, { engine: new ScriptedEngine(["done<|im_end|>"]) });
  const first = await a.say(body([user("do it")]));
  const [, toolUse] = first.content as [object, { id: string }];
  const history = [
    user([{ type: "text", text: "do it", cache_control: { type: "ephemeral" } }]),
    assistant([
      { type: "text", text: "hello\n" },
      { type: "tool_use", id: toolUse.id, name: "Bash", input: { command: "ls", timeout: "5000" } },
    ]),
    user([
      { type: "tool_result", tool_use_id: toolUse.id, content: "a.txt<|im_end|>", is_error: false },
    ]),
    { role: "system", content: "reminder" },
  ];
  const billing = [
    { type: "text", text: "x-anthropic-billing-header: cch=0aaa9;" },
    { type: "text", text: "agent" },
  ];
  await b.say(body(history, { system: billing }));
  const { entries, incomplete } = await store.freeze("r1");
  expect(incomplete).toBe(false);
  const [one, two] = [...entries].sort((x, y) => (x.cum_len ?? 0) - (y.cum_len ?? 0)) as [
    TokenEntry,
    TokenEntry,
  ];
  expect(two).toMatchObject({ parent_resolution: "RESOLVED", parent_call_id: one.model_call_id });
  const past = joined(one);
  expect([...two.prompt_token_ids.slice(0, past.length)]).toEqual(past);
  const rest = await emitted(
    "\n<|im_start|>user\n<tool_response>\na.txtSTOP\n</tool_response><|im_end|>\n<|im_start|>system\nreminder<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
  );
  const specials = (ids: Int32Array) => ids.filter((id) => id >= 151_643);
  expect(specials(two.prompt_token_ids.slice(past.length))).toEqual(specials(rest));
});

test("an entry holds the call: arrays, items, served ids, sampling, versions, verdict", async () => {
  const store = await openStore();
  const text = `look\n${toolCallText("Bash", { command: "ls" })}<|im_end|>`;
  const engine = new ScriptedEngine([
    async () => ({ tokenIds: await emitted(text), policyVersionStart: 7, policyVersionEnd: 8 }),
  ]);
  const { say } = await rolloutOn(store, { engine }, { samplingOverrides: { temperature: 0.5 } });
  const answer = await say(body([user("do it")], { temperature: 1, top_p: 0.9 }));
  const { entries } = await store.freeze("r1");
  const [entry] = entries as [TokenEntry];
  const [, toolUse] = answer.content as [object, { id: string }];
  expect(entry).toMatchObject({
    schema_version: 1,
    rollout_id: "r1",
    model: "policy",
    token_item_index: 1,
    policy_version_start: 7,
    policy_version_end: 8,
    finish_reason: "stop",
    sampling: { temperature: 0.5, top_p: 0.9, top_k: 0, max_tokens: 64 },
    logprobs_mode: "processed",
    parent_resolution: "ROOT",
    cum_len: joined(entry).length,
    purpose: "main",
    served_message_id: answer.id,
    served_tool_call_ids: [toolUse.id],
    served_text: "look\n",
    served_tool_calls: [{ id: toolUse.id, name: "Bash", arguments: { command: "ls" } }],
    context_length: 1,
  });
  expect(entry.generation_token_ids).toEqual(await emitted(text));
  expect(entry.generation_log_probs).toHaveLength(entry.generation_token_ids.length);
  expect(entry.output_items).toMatchObject([
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "look\n" }] },
    { type: "function_call", call_id: toolUse.id, name: "Bash", arguments: '{"command":"ls"}' },
  ]);
  const seed = entry.sampling?.seed ?? -1;
  expect(engine.requests[0]?.sampling.seed).toBe(seed);
});

test("M2. a changed tool value, a changed context or a cut parent is UNRESOLVED with its reason", async () => {
  const store = await openStore();
  const engine = new ScriptedEngine([
    `${toolCallText("Bash", { command: "ls" })}<|im_end|>`,
    "ok<|im_end|>",
    "ok<|im_end|>",
    async () => ({ tokenIds: await emitted("half an answer"), finishReason: "length" as const }),
  ]);
  const { say } = await rolloutOn(store, { engine });
  const first = await say(body([user("do it")]));
  const [toolUse] = first.content as [{ id: string }];
  const turn = (input: object) => [
    assistant([{ type: "tool_use", id: toolUse.id, name: "Bash", input }]),
    user([{ type: "tool_result", tool_use_id: toolUse.id, content: "a" }]),
  ];
  await say(body([user("do it"), ...turn({ command: "rm" })]));
  await say(body([user("do that"), ...turn({ command: "ls" })]));
  const cut = await say(body([user("cut")]));
  expect(cut.stop_reason).toBe("max_tokens");
  await say(body([user("cut"), assistant("half an answer"), user("resume")]));
  const { entries } = await store.freeze("r1");
  const reasons = entries
    .map((entry) => entry.parent_resolution_reason)
    .filter((r) => r !== undefined);
  expect(reasons.sort()).toEqual(["CONTEXT_CHANGED", "ECHO_CHANGED", "PARENT_TRUNCATED"]);
});

test("K1. the record is durable before the first content byte, and before message_stop", async () => {
  const store = await openStore();
  const order: string[] = [];
  const real = storeCapture(store);
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let reached = () => {};
  const atPut = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const capture = storeCapture(store, {
    put: async (entry) => {
      reached();
      await held;
      await real.sink.put(entry);
      order.push("durable");
    },
  });
  const { call } = await rolloutOn(store, { capture });
  const answering = call(body([user("hi")], { stream: true })).then(async (response) => {
    order.push("headers");
    return response.text();
  });
  await atPut;
  expect(order).toEqual([]);
  release();
  readMessage(parseEvents(await answering));
  expect(order).toEqual(["durable", "headers"]);
  expect((await store.freeze("r1")).entries).toHaveLength(1);
});

test.each([
  ["keeps the order of its writes", true],
  ["is a user's", false],
])(
  "C3. the engine works while the intent is on its way, the answer waits for it: a sink that %s",
  async (_what, ordersWrites) => {
    const store = await openStore();
    const order: string[] = [];
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const real = storeCapture(store).sink;
    const client = storeCapture(store, {
      beginCall: async (...call) => {
        await held;
        await real.beginCall?.(...call);
        order.push("begun");
      },
      put: async (entry) => {
        order.push("put asked");
        await real.put(entry);
      },
    });
    const engine = new ScriptedEngine(["ok<|im_end|>"]);
    const { call, server } = await rolloutOn(store, {
      capture: { ...client, ordersWrites },
      engine,
    });
    const answering = call(body([user("hi")])).then((response) => {
      order.push("answered");
      return response.text();
    });
    await engine.asked(1);
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual(ordersWrites ? ["put asked"] : []);
    release();
    await answering;
    expect(order).toEqual(
      ordersWrites ? ["put asked", "begun", "answered"] : ["begun", "put asked", "answered"],
    );
    expect(await server.sealRollout("r1")).toMatchObject({ started: 1, captureLost: 0 });
  },
);

test("K3. a client that goes away aborts its call, and no other", async () => {
  const store = await openStore();
  const engine = new ScriptedEngine([never, "ok<|im_end|>"]);
  const { call, server } = await rolloutOn(store, { engine });
  const controller = new AbortController();
  const gone = call(body([user("hi")]), { signal: controller.signal });
  await engine.asked(1);
  const kept = call(body([user("hi")]));
  await engine.asked(2);
  controller.abort();
  await expect(gone).rejects.toThrow();
  expect((await kept).status).toBe(200);
  const ledger = await server.sealRollout("r1");
  expect(ledger).toMatchObject({ started: 2, aborted: 1, failed: 0, captureLost: 0 });
  const snapshot = await store.freeze("r1");
  expect(snapshot).toMatchObject({ incomplete: false, abortedCalls: 1 });
  expect(snapshot.entries.map((entry) => entry.model_call_id)).toEqual(ledger.recordedCallIds);
});

test("K3. an engine failure is 529 with retry-after, recorded as failed", async () => {
  const store = await openStore();
  const engine = new ScriptedEngine([() => Promise.reject(new Error("out of memory"))]);
  const { call, server } = await rolloutOn(store, { engine });
  const response = await call(body([user("hi")], { stream: true }));
  expect(response.status).toBe(529);
  expect(response.headers.get("retry-after")).toBe("1");
  expect(await response.json()).toMatchObject({
    type: "error",
    error: { type: "overloaded_error" },
  });
  expect(await server.sealRollout("r1")).toMatchObject({ started: 1, failed: 1, captureLost: 0 });
  expect(await store.freeze("r1")).toMatchObject({
    incomplete: false,
    failedCalls: 1,
    entries: [],
  });
});

test("C2. a put that never resolves is answered after putTimeoutMs, and the ledger tells", async () => {
  const store = await openStore();
  const clock = new ManualClock();
  let reached = () => {};
  const atPut = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const capture = storeCapture(store, {
    put: () => {
      reached();
      return new Promise<void>(() => {});
    },
  });
  const { call, server } = await rolloutOn(store, { capture, clock }, SHORT_PUT);
  const answering = call(body([user("hi")]));
  await atPut;
  clock.advance(SHORT_PUT.limits.putTimeoutMs);
  expect((await answering).status).toBe(200);
  expect(await server.sealRollout("r1")).toMatchObject({
    started: 1,
    recordedCallIds: [],
    captureLost: 1,
  });
  expect((await store.freeze("r1")).incomplete).toBe(true);
});

describe("C1. a sink that fails never fails the call:", () => {
  const broken = () => Promise.reject(new Error("disk full"));
  const throwing = () => {
    throw new Error("not even a promise");
  };
  test.each([
    ["every write", { put: broken, beginCall: broken, endCall: broken, markIncomplete: broken }],
    [
      "every write, at once",
      { put: throwing, beginCall: throwing, endCall: throwing, markIncomplete: throwing },
    ],
    ["put", { put: broken }],
    ["beginCall", { beginCall: broken }],
  ])("%s", async (_what, sink) => {
    const store = await openStore();
    const { say, server } = await rolloutOn(store, { capture: storeCapture(store, sink) });
    expect((await say(body([user("hi")]))).content).toEqual([{ type: "text", text: "ok" }]);
    expect(await server.sealRollout("r1")).toMatchObject({ started: 1, captureLost: 1 });
  });

  test("a lineage that fails makes a new segment", async () => {
    const store = await openStore();
    const capture: CaptureClient = {
      ...storeCapture(store),
      lineage: { candidates: broken, cumulativeIds: broken },
    };
    const { say } = await rolloutOn(store, { capture });
    await say(body([user("hi"), assistant("ok"), user("more")]));
    const { entries } = await store.freeze("r1");
    expect(entries[0]).toMatchObject({
      parent_resolution: "UNRESOLVED",
      parent_resolution_reason: "LINEAGE_FAILED: disk full",
    });
  });
});

describe("K2. arrays that fail a check are not recorded, the call is answered:", () => {
  test.each([
    ["a NaN", [-0.5, Number.NaN]],
    ["vLLM's -9999", [-0.5, -9999]],
    ["a positive log probability", [-0.5, 0.1]],
    ["minus infinity", [-0.5, Number.NEGATIVE_INFINITY]],
    ["one missing", [-0.5]],
    ["null", [-0.5, null as unknown as number]],
  ])("%s", async (_what, logProbs) => {
    const store = await openStore();
    const tokenIds = await emitted("ok<|im_end|>");
    const engine = new ScriptedEngine([async () => ({ tokenIds, logProbs })]);
    const { say, server } = await rolloutOn(store, { engine });
    expect((await say(body([user("hi")]))).content).toEqual([{ type: "text", text: "ok" }]);
    expect(await server.sealRollout("r1")).toMatchObject({ recordedCallIds: [], captureLost: 1 });
    expect(await store.freeze("r1")).toMatchObject({ incomplete: true, entries: [] });
  });

  test("an id outside the vocabulary is a failed call: there is no text to answer", async () => {
    const store = await openStore();
    const engine = new ScriptedEngine([async () => ({ tokenIds: [1, 2 ** 30] })]);
    const { call, server } = await rolloutOn(store, { engine });
    expect((await call(body([user("hi")]))).status).toBe(529);
    expect(await server.sealRollout("r1")).toMatchObject({ failed: 1 });
  });
});

test("title, compaction and sub-agent calls inside a rollout are calls of their own", async () => {
  const store = await openStore();
  const engine = new ScriptedEngine([`${toolCallText("Bash", { command: "ls" })}<|im_end|>`]);
  const { base, headers } = await rolloutOn(store, { engine });
  const [main] = recordedRequests("claude-code-2.1.197_main_turn1");
  const others = ["aux_title", "aux_compact", "subagent_turn1"].map(
    (name) => recordedRequests(`claude-code-2.1.197_${name}`)[0],
  );
  for (const recorded of [main, ...others]) {
    const agent = recorded?.headers["x-claude-code-agent-id"];
    const extra: Record<string, string> =
      agent === undefined ? {} : { "x-claude-code-agent-id": agent };
    const response = await postMessages(base("r1"), recorded?.body, { ...headers, ...extra });
    readMessage(parseEvents(await response.text()));
  }
  const { entries } = await store.freeze("r1");
  const verdicts = entries.map((e) => `${e.purpose} ${e.parent_resolution}`).sort();
  expect(verdicts).toEqual(["main ROOT", "main UNRESOLVED", "subagent ROOT", "title ROOT"]);
});

test("the same turn asked twice is served twice, and the attempt that is extended is known", async () => {
  const store = await openStore();
  const engine = new ScriptedEngine(["one<|im_end|>", "two<|im_end|>", "three<|im_end|>"]);
  const { say, call } = await rolloutOn(store, { engine });
  await say(body([user("hi")]));
  const fallback = (await (await call(body([user("hi")]))).json()) as StreamedMessage;
  expect(fallback.content).toEqual([{ type: "text", text: "two" }]);
  await say(body([user("hi"), assistant("two"), user("go on")]));
  const { entries } = await store.freeze("r1");
  const two = entries.find((entry) => entry.served_text === "two");
  const three = entries.find((entry) => entry.served_text === "three");
  expect(three).toMatchObject({
    parent_resolution: "RESOLVED",
    parent_call_id: two?.model_call_id,
  });
});

test("the same seeded request with and without the segment reaches the engine alike", async () => {
  const store = await openStore();
  const engine = new ScriptedEngine();
  const { call, url, server } = await rolloutOn(
    store,
    { engine },
    { samplingOverrides: { top_k: 3 } },
  );
  server.openRollout({ rolloutId: "plain", epoch: 1, captured: false });
  const seeded = body([user("hi")], { seed: 5, temperature: 0.3 });
  await call(seeded);
  await postMessages(`${url}/ng-rollout/plain`, seeded, keyHeaders("plain"));
  await postMessages(url, seeded, {});
  const [captured, ...others] = engine.requests.map(({ promptIds, sampling }) => ({
    promptIds,
    sampling,
  }));
  expect(captured?.sampling).toEqual({
    temperature: 0.3,
    top_p: 1,
    top_k: 3,
    min_p: 0,
    max_tokens: 64,
    seed: 5,
  });
  expect(others).toEqual([captured, captured]);
});

test("V1. seal waits sealTimeoutMs for calls in flight, then aborts them", async () => {
  const store = await openStore();
  const clock = new ManualClock();
  const engine = new ScriptedEngine([never]);
  const { call, server } = await rolloutOn(
    store,
    { engine, clock },
    { limits: { sealTimeoutMs: 777 } },
  );
  const hanging = call(body([user("hi")]));
  await engine.asked(1);
  const sealing = server.sealRollout("r1");
  await clock.timerOf(777);
  clock.advance(777);
  expect(await sealing).toMatchObject({ started: 1, aborted: 1, captureLost: 0 });
  expect((await hanging).status).toBe(403);
  expect(await server.sealRollout("r1")).toMatchObject({ started: 1, aborted: 1 });
  expect(await server.sealRollout("unknown")).toEqual({
    started: 0,
    recordedCallIds: [],
    failed: 0,
    aborted: 0,
    captureLost: 0,
    workerIndex: 0,
    workerGeneration: 0,
  });
});

describe("keep-alive", () => {
  test("A1. X3. a slow stream starts after keepAliveAfterMs with message_start and pings, then is whole", async () => {
    const store = await openStore();
    const clock = new ManualClock();
    let answer = (_: { tokenIds: Int32Array }) => {};
    const engine = new ScriptedEngine([
      () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    ]);
    const { call } = await rolloutOn(store, { engine, clock }, SHORT_PUT);
    const answering = call(body([user("hi")], { stream: true }));
    await begun(engine, clock);
    clock.advance(9999);
    clock.advance(1);
    const response = await answering;
    expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
    clock.advance(12_000);
    answer({ tokenIds: await emitted("slow<|im_end|>") });
    const events = parseEvents(await response.text());
    expect(events.map(({ event }) => event).slice(0, 4)).toEqual([
      "message_start",
      "ping",
      "ping",
      "ping",
    ]);
    expect(readMessage(events).content).toEqual([{ type: "text", text: "slow" }]);
  });

  test("X3. once the stream has started, an engine failure is an error event and nothing follows", async () => {
    const store = await openStore();
    const clock = new ManualClock();
    let fail = (_: Error) => {};
    const engine = new ScriptedEngine([
      () =>
        new Promise((_, reject) => {
          fail = reject;
        }),
    ]);
    const { call, server } = await rolloutOn(store, { engine, clock }, SHORT_PUT);
    const answering = call(body([user("hi")], { stream: true }));
    await begun(engine, clock);
    clock.advance(10_000);
    const response = await answering;
    fail(new Error("gone"));
    const events = parseEvents(await response.text());
    expect(events.map(({ event }) => event)).toEqual(["message_start", "ping", "error"]);
    expect(events.at(-1)?.data).toMatchObject({ error: { type: "overloaded_error" } });
    expect(await server.sealRollout("r1")).toMatchObject({ failed: 1 });
  });
});

test("K3. a streaming client that goes away after the stream started ends its call, not the worker", async () => {
  const store = await openStore();
  const clock = new ManualClock();
  const engine = new ScriptedEngine([never]);
  const { call, server } = await rolloutOn(store, { engine, clock }, SHORT_PUT);
  const controller = new AbortController();
  const answering = call(body([user("hi")], { stream: true }), { signal: controller.signal });
  await begun(engine, clock);
  const { signal } = engine.requests[0] as { signal: AbortSignal };
  clock.advance(10_000);
  await answering;
  const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
  controller.abort();
  await aborted;
  clock.advance(6000);
  expect((await call(body([user("hi")]))).status).toBe(200);
  expect(await server.sealRollout("r1")).toMatchObject({ started: 2, aborted: 1, captureLost: 0 });
});

test("K2. a request whose context cannot be hashed is answered, and its record is lost", async () => {
  const store = await openStore();
  const { call, server } = await rolloutOn(store);
  const schema = '{"type":"object","default":1e999}';
  const text = JSON.stringify(
    userRequest("hi", { tools: [{ name: "a", input_schema: "SCHEMA" }] }),
  );
  const response = await call(text.replace('"SCHEMA"', schema));
  const { captureLost, recordedCallIds } = await server.sealRollout("r1");
  expect(response.status).toBe(200);
  expect(captureLost + recordedCallIds.length).toBe(1);
});

test.each([
  ["was recorded", false, { parent_resolution: "ROOT", parent_resolution_reason: "COMPACTED" }],
  [
    "was lost",
    true,
    { parent_resolution: "UNRESOLVED", parent_resolution_reason: "CONTEXT_CHANGED" },
  ],
])(
  "L5. K2. a summary whose call %s is answered, and what begins with it is judged by that",
  async (_what, loses, verdict) => {
    const store = await openStore();
    const real = storeCapture(store).sink;
    const capture = storeCapture(store, {
      put: (entry) =>
        loses && entry.purpose === "compaction"
          ? Promise.reject(new Error("disk full"))
          : real.put(entry),
    });
    const summary = "The file says that all is blue.";
    const engine = new ScriptedEngine([
      `${toolCallText("Bash", { command: "ls" })}<|im_end|>`,
      `<summary>${summary}</summary><|im_end|>`,
      "ok<|im_end|>",
    ]);
    const { say } = await rolloutOn(store, { capture, engine });
    const asked = user("look");
    const round = await say(body([asked]));
    const [use] = round.content;
    const result = { type: "tool_result", tool_use_id: use?.["id"], content: "a" };
    const echoed = assistant(round.content);
    const ask = { type: "text", text: "Respond with TEXT ONLY: summarise" };
    const answer = await say(body([asked, echoed, user([result, ask])]));
    expect(answer.content).toEqual([{ type: "text", text: `<summary>${summary}</summary>` }]);
    await say(body([user(`So far: ${summary}`), echoed, user([result])]));
    const { entries, incomplete } = await store.freeze("r1");
    expect(incomplete).toBe(loses);
    expect(entries.find((entry) => entry.served_text === "ok")).toMatchObject(verdict);
  },
);

test("a prompt of a megabyte is served and recorded", async () => {
  const store = await openStore();
  const { say } = await rolloutOn(store);
  const answer = await say(userRequest("lorem ipsum ".repeat(87_500)));
  expect(answer.usage.input_tokens).toBeGreaterThan(100_000);
  expect((await store.freeze("r1")).entries).toHaveLength(1);
});

test("L1. a rollout is opened once per epoch; a later epoch replaces it", async () => {
  const { server, base } = await startServer({ capture: storeCapture(await openStore()) });
  server.openRollout({ rolloutId: "r1", epoch: 2, captured: true });
  for (const epoch of [1, 2])
    expect(() => server.openRollout({ rolloutId: "r1", epoch, captured: true })).toThrow(
      RangeError,
    );
  await server.sealRollout("r1");
  server.openRollout({ rolloutId: "r1", epoch: 3, captured: true });
  const old = await postMessages(base("r1"), userRequest("hi"), keyHeaders("r1", 2));
  expect(old.status).toBe(403);
  expect((await postMessages(base("r1"), userRequest("hi"), keyHeaders("r1", 3))).status).toBe(200);
});
