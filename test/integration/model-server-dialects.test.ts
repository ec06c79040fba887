/** A model server spoken to over HTTP, as the clients of each dialect do. */
import { describe, expect, test } from "vitest";
import type { TokenEntry } from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import {
  post,
  WIRE_DIALECTS,
  type WireAnswer,
  type WireDialect,
  wireDialectOf,
} from "../support/dialect-wire.js";
import {
  emitted,
  keyHeaders,
  recordedRequests,
  ScriptedEngine,
  startServer,
  storeCapture,
  toolCallText,
} from "../support/model-server.js";

const TWO_CALLS = `Let me look.\n${toolCallText("Bash", { command: "ls" })}\n${toolCallText("Read", { file_path: "é" })}<|im_end|>`;

async function capturedRollout(answers: ConstructorParameters<typeof ScriptedEngine>[0]) {
  const { store } = temporaryStore();
  const engine = new ScriptedEngine(answers);
  const { server, base, url } = await startServer({ engine, capture: storeCapture(store) });
  const { epoch } = await store.open("r1");
  server.openRollout({ rolloutId: "r1", epoch, captured: true });
  const call = async (dialect: WireDialect, body: { stream?: boolean }, headers = {}) => {
    const response = await post(base("r1"), dialect, body, {
      ...headers,
      ...keyHeaders("r1", epoch),
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    const streamed = body.stream === true;
    const type = response.headers.get("content-type");
    expect(type).toMatch(streamed ? /^text\/event-stream/ : /^application\/json/);
    return dialect.read(text, streamed);
  };
  return { store, engine, call, url, base: base("r1") };
}

const byTime = (entries: readonly TokenEntry[]) =>
  [...entries].sort((a, b) => a.created_at - b.created_at || (a.cum_len ?? 0) - (b.cum_len ?? 0));

describe.each(recordedRequests("").map((r) => [r.name, r] as const))("%s", (_name, recorded) => {
  test("is accepted, answered in its dialect, and its next turn finds its parent", async () => {
    const { store, call } = await capturedRollout([TWO_CALLS, "done<|im_end|>"]);
    const dialect = wireDialectOf(recorded.path);
    const headers = { ...recorded.headers };
    for (const hop of ["host", "connection", "content-length", "accept-encoding", "authorization"])
      delete headers[hop];
    const answer = await call(dialect, recorded.body, headers);
    await call(dialect, dialect.next(recorded.body, answer, "result"), headers);
    const { entries, incomplete } = await store.freeze("r1");
    expect(incomplete).toBe(false);
    const [entry, next] = byTime(entries) as [TokenEntry, TokenEntry];
    expect(answer).toMatchObject({
      id: entry.served_message_id,
      toolIds: entry.served_tool_call_ids,
      inputTokens: entry.prompt_token_ids.length,
      outputTokens: entry.generation_token_ids.length,
    });
    expect(answer.toolIds).toHaveLength(2);
    const isContinuation = /"role":\s*"assistant"|"function_call"/.test(
      JSON.stringify(recorded.body),
    );
    expect(entry.parent_resolution).toBe(isContinuation ? "UNRESOLVED" : "ROOT");
    expect(next).toMatchObject({
      parent_resolution: "RESOLVED",
      parent_call_id: entry.model_call_id,
    });
  });
});

describe.each(Object.values(WIRE_DIALECTS))("$name", (dialect) => {
  test.each([false, true])("a plain call needs no rollout (stream: %s)", async (stream) => {
    const { url } = await startServer();
    const response = await post(url, dialect, dialect.request("policy", "hi", { stream }), {});
    const answer = dialect.read(await response.text(), stream);
    expect(JSON.stringify(answer.raw)).toContain('"ok"');
  });

  test("reasoning is served apart, kept out of the text, and may be left out of the next turn", async () => {
    const thought = `<think>\nhm\n</think>\n\nyes\n${toolCallText("Bash", { command: "ls" })}<|im_end|>`;
    const { store, call } = await capturedRollout([thought, "done<|im_end|>"]);
    const request = dialect.request("policy", "go");
    const answer = await call(dialect, request);
    expect(JSON.stringify(answer.raw)).toMatch(/"hm"/);
    const next = dialect.next(request, answer, "r");
    const bare = JSON.parse(JSON.stringify(next).replace(',"reasoning_content":"hm"', ""));
    const isReasoning = (part: { type?: string }) =>
      part.type === "reasoning" || part.type === "thinking";
    for (const turns of [bare.messages, bare.input])
      for (const turn of turns ?? [])
        if (Array.isArray(turn.content))
          turn.content = turn.content.filter((part: object) => !isReasoning(part));
    if (bare.input) bare.input = bare.input.filter((item: object) => !isReasoning(item));
    expect(JSON.stringify(bare)).not.toContain("hm");
    await call(dialect, bare);
    const { entries } = await store.freeze("r1");
    const [first, second] = byTime(entries) as [TokenEntry, TokenEntry];
    expect(first.served_text).toBe("yes\n");
    expect(first.output_items.map((item) => item.type)).toEqual([
      "reasoning",
      "message",
      "function_call",
    ]);
    expect(second.parent_call_id).toBe(first.model_call_id);
  });

  test("an answer cut by its token limit says so", async () => {
    const { call } = await capturedRollout([
      async () => ({ tokenIds: await emitted("half a"), finishReason: "length" }),
    ]);
    const { raw } = await call(dialect, dialect.request("policy", "go"));
    const said = { messages: "max_tokens", chat: "length", responses: "max_output_tokens" };
    expect(JSON.stringify(raw)).toContain(`"${said[dialect.name]}"`);
  });

  test.each(["any", "one"])(
    "a choice that would force %s tool is refused; nothing is sampled or lost",
    async (which) => {
      const { store, base, engine, call } = await capturedRollout(["done<|im_end|>"]);
      const forced = {
        messages: which === "any" ? { type: "any" } : { type: "tool", name: "Bash" },
        chat: which === "any" ? "required" : { type: "function", function: { name: "Bash" } },
        responses: which === "any" ? "required" : { type: "function", name: "Bash" },
      }[dialect.name];
      const request = dialect.request("policy", "go", { tool_choice: forced, stream: true });
      const response = await post(base, dialect, request, keyHeaders("r1"));
      expect(response.status).toBe(400);
      const { type, message } = dialect.error((await response.json()) as object);
      expect(type).toBe("invalid_request_error");
      const what = which === "any" ? "a tool call" : 'a call of "Bash"';
      expect(message).toBe(
        `tool_choice asks to force ${what}, and this model samples its own tokens only; allowed: auto, none`,
      );
      expect(engine.requests).toEqual([]);
      await call(dialect, dialect.request("policy", "go"));
      const { entries, incomplete } = await store.freeze("r1");
      expect([entries.length, incomplete]).toEqual([1, false]);
    },
  );

  test("forbidden tools stay in the prompt; a call made anyway is text, and the chain goes on", async () => {
    const { store, call } = await capturedRollout([TWO_CALLS, "done<|im_end|>"]);
    const choice = dialect.name === "messages" ? { type: "none" } : "none";
    const request = dialect.request("policy", "go", { tool_choice: choice });
    const answer = await call(dialect, request);
    expect(answer.toolIds).toEqual([]);
    await call(dialect, dialect.next(request, answer, "go on"));
    const { entries } = await store.freeze("r1");
    const [first, second] = byTime(entries) as [TokenEntry, TokenEntry];
    expect(first.served_text).toContain("<tool_call>");
    expect(second.parent_call_id).toBe(first.model_call_id);
  });
});

/** The same turn as another dialect's client would echo it. */
function echoOf(dialect: WireDialect, ids: readonly string[], text: string): WireAnswer {
  const calls = [
    { id: ids[0], name: "Bash", input: { command: "ls" } },
    { id: ids[1], name: "Read", input: { file_path: "é" } },
  ];
  const raw = {
    messages: {
      content: [{ type: "text", text }, ...calls.map((call) => ({ type: "tool_use", ...call }))],
    },
    chat: {
      choices: [
        {
          message: {
            role: "assistant",
            content: text,
            tool_calls: calls.map(({ id, name, input }) => ({
              id,
              type: "function",
              function: { name, arguments: JSON.stringify(input) },
            })),
          },
        },
      ],
    },
    responses: {
      output: [
        { type: "message", role: "assistant", content: [{ type: "output_text", text }] },
        ...calls.map(({ id, name, input }) => ({
          type: "function_call",
          call_id: id,
          name,
          arguments: JSON.stringify(input),
        })),
      ],
    },
  }[dialect.name];
  return { id: "", toolIds: ids, inputTokens: 0, outputTokens: 0, raw };
}

test.each([
  ["messages", { stop_sequences: ["END", "never"] }],
  ["chat", { stop: "END" }],
] as const)(
  "%s: a stop sequence ends the answer before it, and the record at it",
  async (name, asked) => {
    const { store, call } = await capturedRollout(["red END blue<|im_end|>"]);
    const dialect = WIRE_DIALECTS[name];
    const { raw, outputTokens } = await call(dialect, dialect.request("policy", "go", asked));
    if (name === "messages")
      expect(raw).toMatchObject({
        content: [{ text: "red " }],
        stop_reason: "stop_sequence",
        stop_sequence: "END",
      });
    else expect(raw["choices"][0]).toMatchObject({ message: { content: "red " } });
    const { entries } = await store.freeze("r1");
    expect([...(entries[0]?.generation_token_ids ?? [])]).toEqual([...(await emitted("red END"))]);
    expect(entries[0]?.served_text).toBe("red ");
    expect(outputTokens).toBe((await emitted("red END")).length);
  },
);

test.each([false, true])(
  "chat: log probabilities on request are those recorded (stream: %s)",
  async (stream) => {
    const { store, call } = await capturedRollout(["red é<|im_end|>"]);
    const request = WIRE_DIALECTS.chat.request("policy", "go", { logprobs: true, stream });
    const { raw } = await call(WIRE_DIALECTS.chat, request);
    const shown = raw["choices"][0].logprobs.content as { token: string; logprob: number }[];
    const [entry] = (await store.freeze("r1")).entries;
    expect(shown.map(({ logprob }) => logprob)).toEqual([...(entry?.generation_log_probs ?? [])]);
    expect(shown.map(({ token }) => token).join("")).toBe("red é<|im_end|>");
  },
);

test.each([
  ["messages", 403, "permission_error"],
  ["chat", 403, "permission_error"],
  ["responses", 403, "permission_error"],
  ["messages", 400, "invalid_request_error"],
  ["chat", 400, "invalid_request_error"],
  ["responses", 400, "invalid_request_error"],
  ["messages", 529, "overloaded_error"],
  ["chat", 503, "server_error"],
  ["responses", 503, "server_error"],
] as const)("%s: a refusal is %i %s in the dialect's shape", async (name, status, type) => {
  const dialect = WIRE_DIALECTS[name];
  const failing = async () => {
    throw new Error("no memory");
  };
  const { base } = await capturedRollout([failing]);
  const key = status === 403 ? {} : keyHeaders("r1");
  const body = status === 400 ? { model: "m" } : dialect.request("policy", "go", { stream: true });
  const response = await post(base, dialect, body, key);
  expect(response.status).toBe(status);
  expect(response.headers.get("retry-after")).toBe(status > 500 ? "1" : null);
  const said = (await response.json()) as object;
  expect(dialect.error(said).type).toBe(type);
  if (name === "messages") expect(said).toMatchObject({ type: "error" });
});

test("one conversation has one prompt and one lineage, whatever the dialect of each call", async () => {
  const order: readonly (keyof typeof WIRE_DIALECTS)[] = ["messages", "chat", "responses"];
  const prompts: number[][] = [];
  for (const first of order) {
    const { store, call } = await capturedRollout([TWO_CALLS, "done<|im_end|>"]);
    const dialect = WIRE_DIALECTS[first];
    const request = dialect.request("policy", "go");
    const answer: WireAnswer = await call(dialect, request);
    const other = WIRE_DIALECTS[order[(order.indexOf(first) + 1) % 3] as "chat"];
    const echo = echoOf(other, answer.toolIds, "Let me look.\n\n");
    await call(other, other.next(other.request("policy", "go"), echo, "r"));
    const { entries } = await store.freeze("r1");
    const [one, two] = byTime(entries) as [TokenEntry, TokenEntry];
    expect(two).toMatchObject({ parent_resolution: "RESOLVED", parent_call_id: one.model_call_id });
    prompts.push([...one.prompt_token_ids], [...two.prompt_token_ids]);
  }
  const [one, two] = prompts;
  for (let at = 0; at < prompts.length; at += 2) expect(prompts[at]).toEqual(one);
  for (let at = 1; at < prompts.length; at += 2) expect(prompts[at]).toEqual(two);
});
