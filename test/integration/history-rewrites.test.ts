/**
 * Random conversations whose client rewrites its history between calls, over real HTTP and a real store: a call is
 * RESOLVED only when its history is what the parent saw and said, and an unmasked row holds exactly the captured ids.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TokenGeneration } from "../../src/actors/model-server/engines/engine.js";
import {
  finalizeRolloutTokenCapture,
  isTrainable,
  type RolloutResult,
  TokenCaptureStore,
  type TokenEntry,
} from "../../src/capture/index.js";
import { loadQwen3Vocabulary, type Vocabulary } from "../../src/embedded-policy/index.js";
import {
  keyHeaders,
  postMessages,
  type RunningServer,
  ScriptedEngine,
  serverOf,
  storeCapture,
} from "../support/model-server.js";

type Block = Readonly<Record<string, unknown>> & { readonly type: string };
interface Message {
  readonly role: "user" | "assistant" | "system";
  readonly content: string | readonly Block[];
}
interface Request {
  readonly model: string;
  readonly system: string;
  readonly tools: readonly object[];
  readonly messages: readonly Message[];
}

const SPECIAL_TEXTS = [
  "<|im_end|>",
  "<|im_start|>assistant\n",
  "<tools>",
  "</tool_call>",
  "<tool_call>\n{}",
  "</tool_response>",
  "<think>",
  "<|endoftext|>",
];

const text = fc.oneof(
  {
    arbitrary: fc.constantFrom("go", "go on", "a", "b", "", " ", "\n", "é", "ok\n", " x "),
    weight: 3,
  },
  fc.constantFrom(...SPECIAL_TEXTS),
  fc
    .tuple(fc.constantFrom("", "x", "\n"), fc.constantFrom(...SPECIAL_TEXTS))
    .map((parts) => parts.join("")),
);
const argumentsOf = fc.dictionary(
  fc.constantFrom("command", "path", "n", "constructor"),
  fc.oneof(text, fc.constantFrom<unknown>(1, true, null, { deep: ["<|im_end|>"] })),
  { maxKeys: 2 },
);
const answer = fc.record({
  text,
  calls: fc.array(
    fc.record({
      name: fc.constantFrom("Bash", "Write", "<|im_end|>", "</tool_call>"),
      arguments: argumentsOf,
    }),
    { maxLength: 2 },
  ),
  /** Spelled letter by letter: other ids than encoding the text gives. */
  drifted: fc.boolean(),
});

/** What a client may do to its history. Some of it changes what the history means, some does not. */
const REWRITES: Record<string, (request: Request, at: number, word: string) => Request> = {
  nothing: (request) => request,
  "marks for the cache": onMessage((message) => ({
    ...message,
    content: blocksOf(message).map((block) => ({ ...block, cache_control: { type: "ephemeral" } })),
  })),
  "keys in another order": onBlock("tool_use", (block) => ({
    ...block,
    input: Object.fromEntries(Object.entries(block["input"] as object).reverse()),
  })),
  "a turn in two messages": (request, at) => ({
    ...request,
    messages: request.messages.flatMap((message, index) =>
      index === at && message.role === "assistant"
        ? blocksOf(message).map((block) => ({ ...message, content: [block] }))
        : [message],
    ),
  }),
  "thinking added": onMessage((message) =>
    message.role === "assistant"
      ? { ...message, content: [{ type: "thinking", thinking: "hm" }, ...blocksOf(message)] }
      : message,
  ),
  "a text changed": onBlock("text", (block, word) => ({
    ...block,
    text: `${block["text"]}${word}`,
  })),
  "a text replaced": onBlock("text", (block, word) => ({ ...block, text: word })),
  "an argument changed": onBlock("tool_use", (block, word) => ({
    ...block,
    input: { ...(block["input"] as object), command: word },
  })),
  "an argument dropped": onBlock("tool_use", (block) => ({ ...block, input: {} })),
  "a tool renamed": onBlock("tool_use", (block) => ({ ...block, name: "Other" })),
  "another tool id": onBlock("tool_use", (block) => ({ ...block, id: "toolu_0" })),
  "a result changed": onBlock("tool_result", (block, word) => ({ ...block, content: word })),
  "a result that failed": onBlock("tool_result", (block) => ({ ...block, is_error: true })),
  "blocks reversed": onMessage((message) => ({
    ...message,
    content: blocksOf(message).toReversed(),
  })),
  "a block dropped": onMessage((message) => ({ ...message, content: blocksOf(message).slice(1) })),
  "a message dropped": (request, at) => ({
    ...request,
    messages: request.messages.filter((_, index) => index !== at || request.messages.length === 1),
  }),
  "a message twice": (request, at) => ({
    ...request,
    messages: request.messages.flatMap((message, index) =>
      index === at ? [message, message] : [message],
    ),
  }),
  "two messages swapped": (request, at) => {
    const messages = [...request.messages];
    const next = messages[at + 1];
    if (next !== undefined) messages.splice(at, 2, next, messages[at] as Message);
    return { ...request, messages };
  },
  "the history cut": (request, at, word) => ({
    ...request,
    messages: [...request.messages.slice(0, at), { role: "user", content: word }],
  }),
  "a foreign answer": (request, at, word) => ({
    ...request,
    messages: [
      ...request.messages.slice(0, at),
      { role: "assistant", content: word },
      ...request.messages.slice(at),
    ],
  }),
  "another system prompt": (request, _at, word) => ({ ...request, system: word }),
  "another tool description": (request, _at, word) => ({ ...request, tools: [toolOf(word)] }),
  "another model": (request, _at, word) => ({ ...request, model: `m${word}` }),
};

function toolOf(description: string) {
  return {
    name: "Bash",
    description,
    input_schema: { type: "object", properties: { command: {} } },
  };
}

function blocksOf({ content }: Message): readonly Block[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

function onMessage(change: (message: Message, word: string) => Message) {
  return (request: Request, at: number, word: string): Request => ({
    ...request,
    messages: request.messages.map((message, index) =>
      index === at ? change(message, word) : message,
    ),
  });
}

function onBlock(type: string, change: (block: Block, word: string) => Block) {
  return onMessage((message, word) => ({
    ...message,
    content: blocksOf(message).map((block) => (block.type === type ? change(block, word) : block)),
  }));
}

const step = fc.record({
  say: text,
  results: fc.constantFrom("", " ", "a.txt<|im_end|>", "</tool_response>"),
  answer,
  rewrite: fc.oneof(fc.constant("nothing"), fc.constantFrom(...Object.keys(REWRITES))),
  at: fc.nat(),
  word: text,
  /** The client goes on with the history as it rewrote it. */
  keeps: fc.boolean(),
  worker: fc.nat(1),
});

/** What a history means, written independently of the server: one text for each turn. */
function turnsOf(messages: readonly Message[]): string[] {
  const turns: { role: string; text: string; calls: unknown[] }[] = [];
  for (const message of messages) {
    const blocks = blocksOf(message);
    if (message.role === "assistant") {
      const said = blocks.filter(({ type }) => type === "text").map((block) => block["text"]);
      const calls = blocks
        .filter(({ type }) => type === "tool_use")
        .map((block) => [block["id"], block["name"], sorted(block["input"])]);
      const before = turns.at(-1);
      if (before?.role === "assistant") {
        before.text += said.join("");
        before.calls.push(...calls);
      } else turns.push({ role: "assistant", text: said.join(""), calls });
      continue;
    }
    if (blocks.length === 0) turns.push({ role: message.role, text: "", calls: [] });
    let isText = false;
    for (const block of blocks) {
      const last = turns.at(-1);
      if (block.type === "tool_result") {
        const name = `tool ${block["tool_use_id"]} ${block["is_error"] === true}`;
        turns.push({ role: name, text: String(block["content"]), calls: [] });
      } else if (isText && last !== undefined) last.text += `\n${block["text"]}`;
      else turns.push({ role: message.role, text: String(block["text"]), calls: [] });
      isText = block.type === "text";
    }
  }
  return turns.map(({ role, text: said, calls }) =>
    JSON.stringify([role, role === "assistant" && said.trim() === "" ? "" : said, calls]),
  );
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .map(([key, child]) => [key, sorted(child)])
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
}

/** The text that the chat template writes for turns that follow an answer, and how many special tokens are in it. */
function continuationText(turns: readonly string[]): { written: string; specials: number } {
  const parsed = turns.map((turn) => JSON.parse(turn) as [role: string, text: string]);
  let written = "";
  let specials = 3; // <|im_start|> <think> </think>
  parsed.forEach(([role, said], index) => {
    const isTool = role.startsWith("tool ");
    const opens = !isTool || !parsed[index - 1]?.[0].startsWith("tool ");
    const closes = !isTool || !parsed[index + 1]?.[0].startsWith("tool ");
    if (opens) written += `\n<|im_start|>${isTool ? "user" : role}`;
    written += isTool ? `\n<tool_response>\n${said}\n</tool_response>` : `\n${said}`;
    if (closes) written += "<|im_end|>";
    specials += (opens ? 1 : 0) + (closes ? 1 : 0) + (isTool ? 2 : 0);
  });
  return { written: `${written}\n<|im_start|>assistant\n<think>\n\n</think>\n\n`, specials };
}

let vocabulary: Vocabulary;
let store: TokenCaptureStore;
let workers: RunningServer[];
let dir: string;
/** Seed of a call → what the policy says. */
const script = new Map<number, TokenGeneration["tokenIds"]>();
let calls = 0;
let rollouts = 0;

beforeAll(async () => {
  vocabulary = await loadQwen3Vocabulary();
  dir = mkdtempSync(join(tmpdir(), "corral-rewrites-"));
  store = new TokenCaptureStore({ dir });
  const engine = new ScriptedEngine();
  const { generate } = engine;
  engine.generate = async (request) => {
    const tokenIds = script.get(request.sampling.seed) ?? [];
    const plain = new ScriptedEngine([async () => ({ tokenIds })]);
    return generate.call(plain, request);
  };
  workers = await Promise.all(
    [0, 1].map((workerIndex) =>
      serverOf({ engine, capture: storeCapture(store) }, { workerIndex }),
    ),
  );
});
afterAll(async () => {
  await Promise.all(workers.map(({ server }) => server.close()));
  await store.close();
  rmSync(dir, { recursive: true });
});

async function idsOf({
  text: said,
  calls: tools,
  drifted,
}: {
  text: string;
  calls: readonly object[];
  drifted: boolean;
}) {
  const plain = async (part: string) =>
    drifted
      ? (await Promise.all([...part].map((letter) => vocabulary.encodeOrdinary(letter)))).flatMap(
          (ids) => [...ids],
        )
      : [...(await vocabulary.encodeOrdinary(part))];
  const ids = await plain(said);
  for (const call of tools)
    ids.push(
      vocabulary.specialId("<tool_call>"),
      ...(await plain(`\n${JSON.stringify(call)}\n`)),
      vocabulary.specialId("</tool_call>"),
    );
  return Int32Array.from([...ids, vocabulary.specialId("<|im_end|>")]);
}

interface SentCall {
  readonly context: string;
  readonly turns: readonly string[];
  readonly said: string;
}

/** Runs one rollout; gives what was sent, by message id. */
async function converse(steps: readonly (typeof step extends fc.Arbitrary<infer S> ? S : never)[]) {
  const rolloutId = `r${rollouts++}`;
  const { epoch } = await store.open(rolloutId);
  for (const { server } of workers) server.openRollout({ rolloutId, epoch, captured: true });
  const sent = new Map<string, SentCall>();
  let state: Request = { model: "m", system: "agent", tools: [toolOf("run")], messages: [] };
  for (const one of steps) {
    const last = state.messages.at(-1);
    const results = (last?.role === "assistant" ? blocksOf(last) : [])
      .filter(({ type }) => type === "tool_use")
      .map((block) => ({ type: "tool_result", tool_use_id: block["id"], content: one.results }));
    const next: Message = { role: "user", content: results.length > 0 ? results : one.say };
    const honest = { ...state, messages: [...state.messages, next] };
    const rewrite = REWRITES[one.rewrite] as (typeof REWRITES)[string];
    const request = rewrite(honest, one.at % honest.messages.length, one.word);
    const seed = calls++;
    script.set(seed, await idsOf(one.answer));
    const worker = workers[one.worker] as RunningServer;
    const body = { ...request, max_tokens: 999, seed };
    const response = await postMessages(worker.base(rolloutId), body, keyHeaders(rolloutId, epoch));
    const served = (await response.json()) as { id: string; content: Block[] };
    // Only a history that ends with the assistant is refused.
    expect([200, 400]).toContain(response.status);
    if (response.status === 400) continue;
    sent.set(served.id, {
      context: JSON.stringify([request.model, request.system, request.tools]),
      turns: turnsOf(request.messages),
      said: turnsOf([{ role: "assistant", content: served.content }])[0] ?? "",
    });
    const kept = one.keeps ? request : honest;
    state = {
      ...kept,
      messages: [...kept.messages, { role: "assistant", content: served.content }],
    };
  }
  return { rolloutId, sent };
}

async function deliver(rolloutId: string) {
  const ledgers = await Promise.all(workers.map(({ server }) => server.sealRollout(rolloutId)));
  const row: RolloutResult = { _ng_rollout_id: rolloutId, reward: 1, response: { output: [] } };
  await finalizeRolloutTokenCapture(row, store, { ledgers });
  const { entries } = await store.freeze(rolloutId);
  return { row, entries };
}

const joined = (entry: TokenEntry) => [...entry.prompt_token_ids, ...entry.generation_token_ids];

/** The verdict of one recorded call against what was sent. */
function checkVerdict(
  entry: TokenEntry,
  entries: readonly TokenEntry[],
  sent: ReadonlyMap<string, SentCall>,
) {
  const call = sent.get(entry.served_message_id ?? "") as SentCall;
  const hasAnswers = call.turns.some((turn) => turn.startsWith('["assistant"'));
  if (entry.parent_resolution === "ROOT") expect(hasAnswers).toBe(false);
  if (entry.parent_resolution !== "RESOLVED") return;
  const parent = entries.find(
    ({ model_call_id }) => model_call_id === entry.parent_call_id,
  ) as TokenEntry;
  const before = sent.get(parent.served_message_id ?? "") as SentCall;
  expect(call.context).toBe(before.context);
  const past = [...before.turns, before.said];
  expect(call.turns.slice(0, past.length)).toEqual(past);
  const rest = call.turns.slice(past.length);
  expect(rest.filter((turn) => turn.startsWith('["assistant"'))).toEqual([]);
  const ids = joined(parent);
  expect([...entry.prompt_token_ids.slice(0, ids.length)]).toEqual(ids);
  const appended = entry.prompt_token_ids.slice(ids.length);
  const { written, specials } = continuationText(rest);
  expect(vocabulary.decode(appended).normalize("NFC")).toBe(written.normalize("NFC"));
  expect(appended.filter((id) => id >= vocabulary.specialId("<|endoftext|>"))).toHaveLength(
    specials,
  );
}

/** An unmasked row is its entries, one after the other, and nothing else. */
function checkRow(row: RolloutResult, entries: readonly TokenEntry[]) {
  if (row.mask_sample === true) return;
  expect(isTrainable(row)).toBe(true);
  const { output } = row.response as { output: Record<string, unknown>[] };
  const rows = output
    .filter((item) => item["generation_token_ids"] !== undefined)
    .map((item) => [
      item["prompt_token_ids"],
      item["generation_token_ids"],
      item["generation_log_probs"],
    ]);
  const chain = [...entries].sort((a, b) => a.prompt_token_ids.length - b.prompt_token_ids.length);
  expect(rows).toEqual(
    chain.map((entry) => [
      [...entry.prompt_token_ids],
      [...entry.generation_token_ids],
      [...entry.generation_log_probs],
    ]),
  );
  chain.slice(1).forEach((entry, index) => {
    const ids = joined(chain[index] as TokenEntry);
    expect([...entry.prompt_token_ids.slice(0, ids.length)]).toEqual(ids);
  });
}

test("a rewritten history is never resolved wrongly, and an unmasked row is exactly what was captured", async () => {
  const seen = { RESOLVED: 0, UNRESOLVED: 0, ROOT: 0, unmasked: 0, masked: 0 };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
      const { rolloutId, sent } = await converse(steps);
      const { row, entries } = await deliver(rolloutId);
      expect(entries).toHaveLength(sent.size);
      for (const entry of entries) {
        checkVerdict(entry, entries, sent);
        if (entry.parent_resolution !== undefined) seen[entry.parent_resolution]++;
      }
      checkRow(row, entries);
      seen[row.mask_sample === true ? "masked" : "unmasked"]++;
    }),
    { numRuns: Number(process.env["CORRAL_PROPERTY_RUNS"] ?? 200) },
  );
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(10);
});

test("a client that only spells its history otherwise is resolved at every call", async () => {
  const spelling = fc.constantFrom("nothing", "marks for the cache", "keys in another order");
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(step, spelling), { minLength: 2, maxLength: 5 }),
      async (chosen) => {
        const steps = chosen.map(([one, rewrite], index) => ({
          ...one,
          rewrite,
          keeps: true,
          answer: { ...one.answer, text: `${one.answer.text}word ${index}` },
        }));
        const { rolloutId } = await converse(steps);
        const { row, entries } = await deliver(rolloutId);
        expect(entries.map((entry) => entry.parent_resolution_reason)).toEqual(
          entries.map(() => undefined),
        );
        expect(row.mask_sample).toBeUndefined();
        checkRow(row, entries);
      },
    ),
    { numRuns: 60 },
  );
});
