/** Requests that come twice, over HTTP: what a harness does when an answer is lost on its way. */
import { expect, test } from "vitest";
import {
  finalizeRolloutTokenCapture,
  isTrainable,
  type RolloutResult,
  type TokenCaptureStore,
} from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import { post, WIRE_DIALECTS } from "../support/dialect-wire.js";
import { parseEvents, readMessage, type StreamedMessage } from "../support/messages-stream.js";
import {
  keyHeaders,
  postMessages,
  type RunningServer,
  ScriptedEngine,
  startServer,
  storeCapture,
  toolCallText,
} from "../support/model-server.js";

const TOOLS = [
  {
    name: "Bash",
    description: "run",
    input_schema: { type: "object", properties: { command: { type: "string" } } },
  },
];
const user = (content: unknown) => ({ role: "user", content });
const body = (...messages: readonly object[]) => ({
  model: "policy",
  max_tokens: 64,
  system: "agent",
  tools: TOOLS,
  messages,
});
const bash = (command: string) => `${toolCallText("Bash", { command })}<|im_end|>`;

interface Rollout extends RunningServer {
  readonly store: TokenCaptureStore;
  readonly engine: ScriptedEngine;
  say(request: object): Promise<StreamedMessage>;
  /** Sends the request and goes away while its record is written: the answer is made and never arrives. */
  lose(request: object): Promise<void>;
  finish(terminal: { messageId?: string; text?: string }): Promise<RolloutResult>;
}

async function startRollout(answers: string[]): Promise<Rollout> {
  const { store } = temporaryStore();
  await store.open("r1");
  const engine = new ScriptedEngine(answers);
  let onPut: (() => void) | undefined;
  let held: Promise<void> = Promise.resolve();
  const real = storeCapture(store);
  const capture = storeCapture(store, {
    put: async (entry) => {
      onPut?.();
      await held;
      await real.sink.put(entry);
    },
  });
  const running = await startServer({ engine, capture });
  running.server.openRollout({ rolloutId: "r1", epoch: 1, captured: true });
  const post = (request: object, more = {}) =>
    postMessages(running.base("r1"), request, keyHeaders("r1"), more);
  return {
    ...running,
    store,
    engine,
    say: async (request) =>
      readMessage(parseEvents(await (await post({ ...request, stream: true })).text())),
    lose: async (request) => {
      let release = () => {};
      held = new Promise((resolve) => {
        release = resolve;
      });
      const atPut = new Promise<void>((resolve) => {
        onPut = resolve;
      });
      const client = new AbortController();
      const lost = post({ ...request, stream: true }, { signal: client.signal });
      await atPut;
      onPut = undefined;
      const signal = engine.requests.at(-1)?.signal as AbortSignal;
      const noticed = new Promise((resolve) => signal.addEventListener("abort", resolve));
      client.abort();
      await expect(lost).rejects.toThrow();
      await noticed;
      release();
    },
    finish: async (terminal) => {
      const ledger = await running.server.sealRollout("r1");
      const row: RolloutResult = { _ng_rollout_id: "r1", reward: 1 };
      await finalizeRolloutTokenCapture(row, store, { ledgers: [ledger], terminal });
      return row;
    },
  };
}

const metrics = (row: RolloutResult) => row._ng_token_capture as Record<string, unknown>;

test("a last answer that was lost and asked for again is one turn (https://github.com/PrimeIntellect-ai/verifiers/pull/2164)", async () => {
  const rollout = await startRollout([bash("ls"), "four<|im_end|>", "4<|im_end|>"]);
  const [toolUse] = (await rollout.say(body(user("do it")))).content as [{ id: string }];
  const second = body(
    user("do it"),
    { role: "assistant", content: [{ type: "tool_use", ...toolUse, input: { command: "ls" } }] },
    user([{ type: "tool_result", tool_use_id: toolUse.id, content: "a" }]),
  );
  await rollout.lose(second);
  await rollout.say(second);
  const row = await rollout.finish({});
  expect(metrics(row)).toMatchObject({
    n_calls: 3,
    chains: 1,
    superseded_calls: 1,
    mask_reasons: [],
  });
  expect(isTrainable(row)).toBe(true);
});

test("a retried first turn does not poison the rollout (https://github.com/radixark/miles/pull/1826)", async () => {
  const rollout = await startRollout([bash("ls"), bash("pwd"), "done<|im_end|>"]);
  await rollout.lose(body(user("do it")));
  const [toolUse] = (await rollout.say(body(user("do it")))).content as [{ id: string }];
  const end = await rollout.say(
    body(
      user("do it"),
      { role: "assistant", content: [{ type: "tool_use", ...toolUse, input: { command: "pwd" } }] },
      user([{ type: "tool_result", tool_use_id: toolUse.id, content: "/w" }]),
    ),
  );
  const row = await rollout.finish({ messageId: end.id });
  expect(metrics(row)).toMatchObject({ n_calls: 3, superseded_calls: 1, mask_reasons: [] });
  expect(isTrainable(row)).toBe(true);
  const output = (row.response as { output: { _ng_model_call?: object }[] }).output;
  expect(output.filter((item) => item._ng_model_call !== undefined)).toHaveLength(2);
});

test("Claude Code's repeat without `stream` after a broken stream is one turn (https://github.com/tverma101/AgentSwitchboard/issues/181)", async () => {
  const rollout = await startRollout([bash("ls"), bash("ls"), "done<|im_end|>"]);
  const request = body(user("do it"));
  await rollout.lose(request);
  const again = await postMessages(rollout.base("r1"), request, {
    ...keyHeaders("r1"),
    "x-stainless-timeout": "300",
  });
  const [toolUse] = ((await again.json()) as StreamedMessage).content as [{ id: string }];
  const end = await rollout.say(
    body(
      user("do it"),
      { role: "assistant", content: [{ type: "tool_use", ...toolUse, input: { command: "ls" } }] },
      user([{ type: "tool_result", tool_use_id: toolUse.id, content: "a" }]),
    ),
  );
  const row = await rollout.finish({ messageId: end.id });
  // Both attempts sampled the same ids: the repeat is told apart by the ids that it served.
  expect(metrics(row)).toMatchObject({ n_calls: 3, superseded_calls: 1, mask_reasons: [] });
  expect(isTrainable(row)).toBe(true);
});

test("two identical requests that both arrived are two samples, and nothing chooses between them", async () => {
  const rollout = await startRollout(["four<|im_end|>", "4<|im_end|>"]);
  await rollout.say(body(user("2+2?")));
  await rollout.say(body(user("2+2?")));
  const row = await rollout.finish({});
  expect(row.mask_sample).toBe(true);
  expect(metrics(row)["mask_reasons"]).toContainEqual(
    expect.objectContaining({ code: "UNRESOLVED_RETRY" }),
  );
});

test("a reply lost in a router's timeout leaves an orphan that no chain trains (https://github.com/radixark/miles/pull/1714)", async () => {
  const rollout = await startRollout([bash("ls"), bash("cat a"), bash("pwd"), "done<|im_end|>"]);
  const [toolUse] = (await rollout.say(body(user("do it")))).content as [{ id: string }];
  await rollout.lose(
    body(
      user("do it"),
      { role: "assistant", content: [{ type: "tool_use", ...toolUse, input: { command: "ls" } }] },
      user([{ type: "tool_result", tool_use_id: toolUse.id, content: "a" }]),
    ),
  );
  // The client starts again from a strict prefix of its history.
  const [other] = (await rollout.say(body(user("do it")))).content as [{ id: string }];
  const end = await rollout.say(
    body(
      user("do it"),
      { role: "assistant", content: [{ type: "tool_use", ...other, input: { command: "pwd" } }] },
      user([{ type: "tool_result", tool_use_id: other.id, content: "/w" }]),
    ),
  );
  const row = await rollout.finish({ messageId: end.id });
  expect(metrics(row)).toMatchObject({ n_calls: 4, chains: 2, mask_reasons: [] });
  const output = (row.response as { output: { name?: string; arguments?: string }[] }).output;
  expect(output.map((item) => item.arguments ?? "text")).toEqual(['{"command":"pwd"}', "text"]);
});

test("a rejected retry deletes nothing (https://github.com/radixark/miles/pull/3311)", async () => {
  const rollout = await startRollout(["one<|im_end|>", "two<|im_end|>"]);
  const first = body(user("hi"));
  await rollout.say(first);
  await rollout.say(body(user("hi"), { role: "assistant", content: "one" }, user("go on")));
  const bad = { ...first, max_tokens: "many" };
  const refused = await postMessages(rollout.base("r1"), bad, keyHeaders("r1"));
  expect(refused.status).toBe(400);
  const row = await rollout.finish({});
  expect(metrics(row)).toMatchObject({ n_calls: 2, chains: 1, mask_reasons: [] });
});

const TERMINALS = [
  ["messages", "event: message_stop"],
  ["chat", "data: [DONE]"],
  ["responses", "event: response.completed"],
] as const;

test.each(TERMINALS)(
  "%s: the record is durable when the terminal event arrives: a harness that ends there loses no turn and no reward (https://github.com/PrimeIntellect-ai/verifiers/pull/1864)",
  async (name, terminal) => {
    const dialect = WIRE_DIALECTS[name];
    const rollout = await startRollout([bash("ls"), "done<|im_end|>"]);
    const say = (request: object) => post(rollout.base("r1"), dialect, request, keyHeaders("r1"));
    const first = dialect.request("policy", "do it", { stream: true });
    const answer = dialect.read(await (await say(first)).text(), true);
    const last = await say(dialect.next(first, answer, "a.txt"));
    let seen = "";
    for await (const chunk of last.body as ReadableStream<Uint8Array>) {
      seen += Buffer.from(chunk).toString();
      if (seen.includes(terminal)) break;
    }
    expect(seen).toContain(terminal);
    // Frozen at once: no seal that could wait for a record that is still on its way.
    const row: RolloutResult = { _ng_rollout_id: "r1", reward: 1 };
    await finalizeRolloutTokenCapture(row, rollout.store, { terminal: { text: "done" } });
    expect(metrics(row)).toMatchObject({ n_calls: 2, chains: 1, roots: 1, mask_reasons: [] });
    expect(isTrainable(row)).toBe(true);
  },
);
