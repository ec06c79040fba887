/** Every engine over HTTP against the mock engine, from a harness's request to the stored record. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { EmbeddedEngine } from "../../src/actors/model-server/engines/embedded.js";
import {
  buildTrajectory,
  rebuildResponse,
  type TokenEntry,
  tokenEntryToJson,
} from "../../src/capture/index.js";
import {
  EmbeddedPolicy,
  loadQwen3Vocabulary,
  untrainedSnapshot,
} from "../../src/embedded-policy/index.js";
import { MOCK_FAULTS, type MockFault } from "../../src/mock-engine/index.js";
import { temporaryDirectory } from "../support/capture.js";
import { runCorral } from "../support/corral-cli.js";
import {
  CHAT_ENGINES,
  type EngineName,
  engineClient,
  openForTest,
  playRollout,
  rolloutWith,
  startMock,
  TOKEN_ENGINES,
} from "../support/engines.js";
import { ManualClock } from "../support/manual-clock.js";
import type { StreamedMessage } from "../support/messages-stream.js";
import { userRequest } from "../support/model-server.js";

const TURNS = 6;

const byLength = (entries: readonly TokenEntry[]) =>
  [...entries].sort((a, b) => a.prompt_token_ids.length - b.prompt_token_ids.length);

const tokensOf = (entries: readonly TokenEntry[]) =>
  byLength(entries).map((entry) => ({
    prompt: entry.prompt_token_ids,
    ids: entry.generation_token_ids,
    logProbs: entry.generation_log_probs,
    finish: entry.finish_reason,
    resolution: entry.parent_resolution,
  }));

async function embeddedRollout(more: object = {}) {
  const policy = new EmbeddedPolicy(await loadQwen3Vocabulary());
  const rollout = await rolloutWith({ engine: new EmbeddedEngine(policy, untrainedSnapshot()) });
  await playRollout(rollout, TURNS, more);
  return (await rollout.store.freeze("r1")).entries;
}

describe("the same recorded rollout", () => {
  test.each(TOKEN_ENGINES)(
    "has the same ids and log probabilities through %s as through the embedded engine",
    async (name) => {
      const mock = await startMock(name);
      const { engine } = await openForTest(name, engineClient([mock.url]));
      const rollout = await rolloutWith({ chatEngine: engine });
      await playRollout(rollout, TURNS);
      const { entries, incomplete } = await rollout.store.freeze("r1");
      expect(incomplete).toBe(false);
      expect(tokensOf(entries)).toEqual(tokensOf(await embeddedRollout()));
      const build = buildTrajectory(entries, { rolloutId: "r1" });
      expect(build).toMatchObject({ masked: false });
      expect(build.chain).toHaveLength(TURNS);
      // The policy samples splits that its text would not encode to: a path that re-tokenizes would differ above.
      const vocabulary = await loadQwen3Vocabulary();
      const again = await Promise.all(
        entries.map(({ generation_token_ids: ids }) => vocabulary.encode(vocabulary.decode(ids))),
      );
      expect(again).not.toEqual(entries.map((entry) => entry.generation_token_ids));
    },
  );

  test.each(TOKEN_ENGINES)("with a temperature and filters, through %s", async (name) => {
    const sampling = { temperature: 0.7, top_k: 5, top_p: 0.9 };
    const mock = await startMock(name);
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    await playRollout(rollout, TURNS, sampling);
    const { entries } = await rollout.store.freeze("r1");
    const embedded = tokensOf(await embeddedRollout(sampling));
    const through = tokensOf(entries);
    expect(through.map(({ ids }) => ids)).toEqual(embedded.map(({ ids }) => ids));
    // SGLang's log probabilities do not have the filters, and the record says so.
    expect(entries[0]?.logprobs_mode).toBe(name === "sglang" ? "tempered" : "processed");
    const differences = through.flatMap(({ logProbs }, at) =>
      Array.from(logProbs, (value, i) => Math.abs(value - (embedded[at]?.logProbs[i] ?? 0))),
    );
    // llama.cpp tells the probability after sampling, whose logarithm rounds.
    if (name === "sglang") expect(Math.max(...differences)).toBeGreaterThan(0.01);
    else expect(Math.max(...differences)).toBeLessThan(name === "llama_cpp" ? 1e-12 : 1e-300);
  });
});

test.each(CHAT_ENGINES)(
  "F7. %s: history that the server re-tokenised is a new segment, with the cause (https://github.com/NVIDIA-NeMo/Gym/issues/1416, https://github.com/sgl-project/sglang/issues/18378)",
  async (name) => {
    const mock = await startMock(name);
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    await playRollout(rollout, TURNS);
    const { entries, incomplete } = await rollout.store.freeze("r1");
    expect(incomplete).toBe(false);
    const [first, ...rest] = byLength(entries);
    expect(first?.parent_resolution).toBe("ROOT");
    const reasons = rest.map((entry) => entry.parent_resolution_reason ?? entry.parent_resolution);
    // The template drops the empty thinking block of every earlier turn, so no prompt begins with its parent's ids.
    for (const reason of reasons)
      expect(reason).toMatch(/^HISTORY_REWRITTEN: token \d+ is \d+, the parent's is \d+$/);
    const build = buildTrajectory(entries, { rolloutId: "r1" });
    expect(build).toMatchObject({ masked: true, metrics: { unresolved_calls: TURNS - 1 } });

    const file = path.join(temporaryDirectory(), "entries.jsonl");
    const lines = entries.map((entry) => `${JSON.stringify(tokenEntryToJson(entry))}\n`);
    fs.writeFileSync(file, lines.join(""));
    const explained = ["explain", "r1", "--entries", file];
    const { breaks } = JSON.parse((await runCorral([...explained, "--json"])).stdout);
    expect(breaks.map((one: { reason: string }) => one.reason)).toEqual(reasons);
    for (const { cause, firstDifference } of breaks) {
      expect(cause).toBe("reasoning stripped");
      expect(firstDifference.recorded).toMatch(/^<think>/);
      expect(firstDifference.sent).not.toMatch(/^<think>/);
    }
    const { stdout } = await runCorral(explained);
    expect(stdout).toContain(`reasoning stripped (${reasons[0]})`);
  },
);

const USABLE = new Set<MockFault>([
  "missing_logprobs",
  "short_logprobs",
  "null_logprob",
  "nan_logprob",
  "sentinel_logprob",
  "positive_logprob",
  "usage_mismatch",
  "other_prompt",
]);
const RETRIED = new Set<MockFault>(["status_429", "status_503"]);

const isChat = (name: EngineName) => CHAT_ENGINES.some((one) => one === name);

describe.each([...TOKEN_ENGINES, ...CHAT_ENGINES])("faults of %s", (name) => {
  test.each(MOCK_FAULTS)(
    "F1 F16 %s is masked or an error, never a record (https://github.com/vllm-project/vllm/issues/27482, https://github.com/PrimeIntellect-ai/prime-rl/issues/1646)",
    async (fault) => {
      const mock = await startMock(name);
      const clock = new ManualClock();
      const client = engineClient([mock.url], fault === "stall" ? { clock } : {});
      const { engine } = await openForTest(name, client);
      const rollout = await rolloutWith({ chatEngine: engine });
      const before = mock.calls.length;
      mock.addFaults(fault);
      const answering = rollout.call(userRequest("hi", { seed: 7 }));
      if (fault === "stall") {
        await mock.called(before + 1);
        clock.advance(60_000);
      }
      const response = await answering;
      const ledger = await rollout.server.sealRollout("r1");
      const { entries, incomplete } = await rollout.store.freeze("r1");
      // A chat engine has no prompt of ours to compare with: what the server reports is the prompt.
      const isHarmless = fault === "other_prompt" && isChat(name);
      if (RETRIED.has(fault) || isHarmless) {
        expect(response.status).toBe(200);
        expect([entries.length, incomplete]).toEqual([1, false]);
        return;
      }
      expect(entries).toEqual([]);
      if (USABLE.has(fault)) {
        expect(response.status).toBe(200);
        expect(incomplete).toBe(true);
        expect(ledger).toMatchObject({ started: 1, captureLost: 1 });
        return;
      }
      // No tokenizer to know the vocabulary by; the id is still no int32 of a record's bounds.
      if (fault === "id_out_of_range" && isChat(name)) return;
      expect(response.status).toBe(529);
      expect(await response.json()).toMatchObject({ type: "error" });
      expect(ledger).toMatchObject({ started: 1, failed: 1, captureLost: 0 });
      expect(incomplete).toBe(false);
    },
  );
});

test("a client that goes away ends the engine's call", async () => {
  const mock = await startMock("vllm");
  const { engine } = await openForTest("vllm", engineClient([mock.url]));
  const rollout = await rolloutWith({ chatEngine: engine });
  const before = mock.calls.length;
  mock.addFaults("stall");
  const controller = new AbortController();
  const calling = rollout.call(userRequest("hi"), { signal: controller.signal });
  await mock.called(before + 1);
  controller.abort();
  await expect(calling).rejects.toThrow();
  await mock.aborted(mock.calls.at(-1)!);
  expect(await rollout.server.sealRollout("r1")).toMatchObject({ aborted: 1, captureLost: 0 });
});

describe("context", () => {
  test("prompt + max_tokens over the limit is clamped, a prompt over it refused", async () => {
    const mock = await startMock("vllm", { maxModelLen: 300 });
    const { engine } = await openForTest("vllm", engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    const ok = await rollout.call(userRequest("hi", { max_tokens: 32_000 }));
    expect(ok.status).toBe(200);
    const { prompt, max_tokens } = mock.calls.at(-1)!.body as { prompt: []; max_tokens: number };
    expect(prompt.length + max_tokens).toBe(300);
    const tooLong = await rollout.call(userRequest("hi ".repeat(400)));
    expect(tooLong.status).toBe(400);
    expect(await tooLong.text()).toMatch(/prompt is too long: \d+ tokens > 299 maximum/);
    expect(await rollout.server.sealRollout("r1")).toMatchObject({ started: 1 });
  });

  test.each(CHAT_ENGINES)(
    "%s: the server's own limit is taken where max_tokens does not fit",
    async (name) => {
      const mock = await startMock(name, { maxModelLen: 300 });
      const { engine } = await openForTest(name, engineClient([mock.url]));
      const rollout = await rolloutWith({ chatEngine: engine });
      expect((await rollout.call(userRequest("hi", { max_tokens: 32_000 }))).status).toBe(200);
      const refused = await rollout.call(userRequest("hi ".repeat(400)));
      expect(refused.status).toBe(400);
    },
  );

  test("an overflow of the continued history begins a new segment where the template's history is shorter", async () => {
    const mock = await startMock("vllm", {
      maxModelLen: 80,
      script: [
        { text: "x" },
        { text: "x" },
        { text: `<think>${" a".repeat(40)}</think>ok<|im_end|>` },
      ],
    });
    const { engine } = await openForTest("vllm", engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    const hi = { role: "user", content: "hi" };
    const first = (await (await rollout.call(userRequest("hi"))).json()) as StreamedMessage;
    const messages = [
      hi,
      { role: "assistant", content: first.content },
      { role: "user", content: "b".repeat(40) },
    ];
    expect((await rollout.call(userRequest("", { messages }))).status).toBe(200);
    const [, second] = byLength((await rollout.store.freeze("r1")).entries);
    const reasons = (await rollout.store.freeze("r1")).entries.map(
      (e) => e.parent_resolution_reason,
    );
    expect(second).toBeDefined();
    expect(reasons.some((reason) => reason?.startsWith("CONTEXT_OVERFLOW"))).toBe(true);
  });
});

test("F15. a call that overlaps a policy update is stamped with both versions (https://github.com/vllm-project/vllm/issues/54443)", async () => {
  const mock = await startMock("vllm");
  const { engine } = await openForTest("vllm", engineClient([mock.url]));
  const rollout = await rolloutWith({ chatEngine: engine }, { policyVersion: 7 });
  const before = mock.calls.length;
  await rollout.server.beginPolicyUpdate(8);
  const calling = rollout.call(userRequest("hi"));
  await mock.called(before + 1);
  await rollout.server.commitPolicyUpdate(8);
  expect((await calling).status).toBe(200);
  await rollout.call(userRequest("hi again"));
  const { entries } = await rollout.store.freeze("r1");
  expect(byLength(entries).map((e) => [e.policy_version_start, e.policy_version_end])).toEqual([
    [7, 8],
    [8, 8],
  ]);
});

/** Four tokens. */
const FOUR = { token_ids: [1, 2, 3, 151_645] };

const VERSIONED = ["vllm_generate", "sglang", "sglang_chat"] as const;

test.each(VERSIONED)("%s: the weight version that the engine reports is recorded", async (name) => {
  const mock = await startMock(name);
  mock.weightVersion = 3;
  const { engine } = await openForTest(name, engineClient([mock.url]));
  const rollout = await rolloutWith({ chatEngine: engine });
  await rollout.call(userRequest("hi"));
  mock.weightVersion = 4;
  await rollout.call(userRequest("hi again"));
  const { entries } = await rollout.store.freeze("r1");
  const versions = byLength(entries).map((e) => [e.policy_version_start, e.policy_version_end]);
  expect(versions).toEqual([
    [3, 3],
    // SGLang tells the version at the end: the call may have begun with the one that was told before.
    [name === "vllm_generate" ? 4 : 3, 4],
  ]);
});

test.each(VERSIONED)(
  "F15. %s: spans of versions are recorded and delivered as the engine reports them (https://github.com/vllm-project/vllm/issues/54443, https://github.com/sgl-project/sglang/pull/32660)",
  async (name) => {
    const mock = await startMock(name, {
      script: [...(name === "vllm_generate" ? [FOUR] : []), FOUR, FOUR],
    });
    mock.weightVersion = 7;
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    const before = mock.calls.length;
    await engine.pause?.();
    const calling = rollout.call(userRequest("hi"));
    await mock.called(before + 1);
    mock.weightVersion = 8;
    await engine.resume?.();
    expect((await calling).status).toBe(200);
    const { entries } = await rollout.store.freeze("r1");
    const spans = [
      { version: 7, start: 0, end: 2 },
      { version: 8, start: 2, end: 4 },
    ];
    expect(entries).toMatchObject([
      { policy_version_start: 7, policy_version_end: 8, policy_version_spans: spans },
    ]);
    const rebuilt = rebuildResponse(buildTrajectory(entries, { rolloutId: "r1" }));
    expect(rebuilt?.output.map((item) => item["policy_version_spans"])).toEqual([spans]);
  },
);

test.each(["vllm", "llama_cpp", "vllm_chat"] as const)(
  "%s: no spans are made up where the engine tells none",
  async (name) => {
    const mock = await startMock(name);
    mock.weightVersion = 7;
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine }, { policyVersion: 5 });
    await rollout.call(userRequest("hi"));
    const [entry] = (await rollout.store.freeze("r1")).entries;
    expect(entry).toMatchObject({ policy_version_start: 5, policy_version_end: 5 });
    expect(entry).not.toHaveProperty("policy_version_spans");
  },
);

describe("openai_compatible", () => {
  test("answers, and refuses a captured call", async () => {
    const mock = await startMock("openai_compatible");
    const { engine } = await openForTest("openai_compatible", engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    const captured = await rollout.call(userRequest("hi"));
    expect(captured.status).toBe(400);
    expect(await captured.text()).toContain("tells no token ids");
    const plain = await fetch(`${rollout.url}/v1/messages`, {
      method: "POST",
      body: JSON.stringify(userRequest("hi")),
    });
    expect(plain.status).toBe(200);
    expect(await plain.json()).toMatchObject({
      type: "message",
      usage: { output_tokens: expect.any(Number) },
    });
    expect(mock.calls.at(-1)?.body).not.toHaveProperty("return_token_ids");
  });

  test.each([
    [{ type: "any" }, "required"],
    [
      { type: "tool", name: "Bash" },
      { type: "function", function: { name: "Bash" } },
    ],
    [{ type: "none" }, "none"],
  ])(
    "a tool_choice %j is the server's to obey: nothing of it is trained on",
    async (choice, want) => {
      const mock = await startMock("openai_compatible");
      const { engine } = await openForTest("openai_compatible", engineClient([mock.url]));
      const { url } = await rolloutWith({ chatEngine: engine });
      const tools = [{ name: "Bash", description: "run", input_schema: { type: "object" } }];
      const body = userRequest("hi", { tools, tool_choice: choice });
      const response = await fetch(`${url}/v1/messages`, {
        method: "POST",
        body: JSON.stringify(body),
      });
      expect(response.status).toBe(200);
      expect(mock.calls.at(-1)?.body["tool_choice"]).toEqual(want);
    },
  );
});
