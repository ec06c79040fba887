/** Faults that systems of this kind have had in public, as inputs of the capture layer. */
import { describe, expect, test } from "vitest";
import {
  buildTrajectory,
  type Conversation,
  type ConversationMessage,
  checkGeneration,
  contextDigest,
  FINGERPRINT_VERSION,
  finalizeRolloutTokenCapture,
  flattenTrajectory,
  isTrainable,
  type LineageNode,
  parseTokenEntry,
  type RolloutResult,
  rebuildResponse,
  resolveParent,
  type ServedToolCall,
  type TokenEntry,
  trajectoryRows,
} from "../../../src/capture/index.js";
import { temporaryStore } from "../../support/capture.js";
import { call, continues, root } from "./entries.js";

const build = (entries: readonly TokenEntry[], more = {}) =>
  buildTrajectory(entries, { rolloutId: "r", ...more });
const ids = (entries: readonly TokenEntry[]) =>
  entries.map((entry) => entry.model_call_id).join("");

async function rowOf(entries: readonly TokenEntry[], options = {}): Promise<RolloutResult> {
  const row: RolloutResult = { _ng_rollout_id: "r", reward: 1 };
  const snapshot = {
    rolloutId: "r",
    entries,
    incomplete: false,
    incompleteReasons: [],
    failedCalls: 0,
    abortedCalls: 0,
    snapshotId: "s",
    version: 1,
  };
  await finalizeRolloutTokenCapture(row, { freeze: async () => snapshot }, options);
  return row;
}

const user = (text: string): ConversationMessage => ({ role: "user", text });
const turn = (text: string, ...toolCalls: ServedToolCall[]): ConversationMessage => ({
  role: "assistant",
  text,
  toolCalls,
});
const result = (id: string, text: string): ConversationMessage => ({
  role: "tool",
  toolCallId: id,
  text,
  isError: false,
});
const base: Conversation = { model: "m", system: "s", tools: [], messages: [user("do it")] };

/** The verdict on a request whose history ends with `echo`, when the call before it served `served`. */
async function verdict(
  served: { text?: string; toolCalls?: ServedToolCall[] },
  echo: readonly ConversationMessage[],
  more: Partial<Conversation> = {},
): Promise<string> {
  const node: LineageNode = {
    modelCallId: "a",
    model: "m",
    contextDigest: contextDigest(base, 1),
    contextLength: 1,
    fingerprintVersion: FINGERPRINT_VERSION,
    servedText: served.text ?? "",
    servedToolCalls: served.toolCalls ?? [],
    finishReason: "stop",
    cumLen: 3,
    cumulativeDigest: "d",
  };
  const candidates = async (_: string, key: { kind: string; text?: string }) =>
    key.kind === "text" && key.text !== node.servedText ? [] : [node];
  const conversation = { ...base, messages: [...base.messages, ...echo], ...more };
  const found = await resolveParent(conversation, "r", { candidates });
  return found.resolution === "UNRESOLVED" ? found.reason : found.resolution;
}

describe("records", () => {
  test("ids that a tool parser hid: fewer ids than log probabilities (https://github.com/vllm-project/vllm/issues/27482, https://github.com/vllm-project/vllm/pull/29074, https://github.com/microsoft/agent-lightning/issues/326)", () => {
    const logProbs = new Array(30).fill(-0.1);
    expect(() => checkGeneration([1, 2, 3], logProbs)).toThrow(/has 30 values for 3/);
    const record = { ...call("a", [1], [2, 3]), generation_log_probs: [-0.1] };
    expect(() => parseTokenEntry(record)).toThrow(/RECORD|values for 2/);
  });

  test.each([
    ["null", null],
    ["-9999.0", -9999],
    ["NaN", Number.NaN],
    ["missing", undefined],
  ])(
    "a log probability that is %s is never 0.0 (https://github.com/verl-project/uni-agent/pull/92, https://github.com/PrimeIntellect-ai/prime-rl/issues/1646, https://github.com/sgl-project/sglang/issues/4097)",
    async (_, value) => {
      const generation_log_probs = [-0.5, value] as unknown as Float64Array;
      const row = await rowOf([call("a", [1], [2, 3], { ...root, generation_log_probs })]);
      expect(row.mask_sample).toBe(true);
      expect(isTrainable(row)).toBe(false);
      expect(row.response).toBeUndefined();
    },
  );

  test("a call that straddles a weight update has both versions (https://github.com/rllm-org/rllm/pull/622, https://github.com/verl-project/uni-agent/pull/103, https://github.com/vllm-project/vllm/issues/54443)", async () => {
    const versions = { policy_version_start: 7, policy_version_end: 8 };
    const row = await rowOf([call("a", [1], [2], { ...root, ...versions })]);
    expect(row._ng_token_capture).toMatchObject({ policy_version: { min: 7, max: 8 } });
    expect((row.response as { output: object[] }).output[0]).toMatchObject(versions);
  });

  test("the truncation of the last turn is kept (https://github.com/OpenRLHF/OpenRLHF/pull/1327)", () => {
    const cut = call("b", [1, 2, 3], [4], { ...continues("a"), finish_reason: "length" });
    const b = build([call("a", [1], [2], { ...root, finish_reason: "stop" }), cut]);
    const output = rebuildResponse(b)?.output ?? [];
    expect(
      output.map((item) => Reflect.get(item["_ng_model_call"] as object, "finish_reason")),
    ).toEqual(["stop", "length"]);
  });

  test("the frozen set never mixes attempts of a program that was restarted (https://github.com/PrimeIntellect-ai/verifiers/pull/1739)", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.beginCall("r", "late");
    await store.put(call("a", [1], [2], root));
    await store.reset("r");
    await expect(store.put(call("late", [1], [3], root))).rejects.toMatchObject({
      code: "STALE_EPOCH",
    });
    await store.put(call("b", [1], [4], root));
    expect(ids((await store.freeze("r")).entries)).toBe("b");
  });
});

describe("lineage", () => {
  const bash = (args: unknown): ServedToolCall => ({ id: "t1", name: "Bash", arguments: args });

  test("a replay that is equal in meaning is the same chain (https://github.com/THUDM/slime/pull/2287)", async () => {
    const echo = (args: unknown) => [turn("", bash(args)), result("t1", "ok")];
    expect(await verdict({ toolCalls: [bash({ b: 2, a: 1 })] }, echo({ a: 1, b: 2 }))).toBe(
      "RESOLVED",
    );
    expect(await verdict({ toolCalls: [bash("")] }, echo({}))).toBe("RESOLVED");
    expect(await verdict({ toolCalls: [bash({ c: "x\n" })] }, echo({ c: "x" }))).toBe("RESOLVED");
    expect(await verdict({ toolCalls: [bash({ a: 1 })] }, echo({ a: 2 }))).toBe("ECHO_CHANGED");
    const renamed = [turn("", { ...bash({ a: 1 }), name: "Read" }), result("t1", "ok")];
    expect(await verdict({ toolCalls: [bash({ a: 1 })] }, renamed)).toBe("ECHO_CHANGED");
  });

  test("reasoning that a harness does not send back breaks no chain (https://github.com/THUDM/slime/pull/2335, https://github.com/THUDM/slime/issues/2288)", async () => {
    for (const reasoning of [undefined, "hm", "edited"]) {
      const said = {
        role: "assistant",
        text: "four",
        toolCalls: [],
        ...(reasoning && { reasoning }),
      };
      const echo = [said as ConversationMessage, user("sure?")];
      expect(await verdict({ text: "four" }, echo)).toBe("RESOLVED");
    }
  });

  test("a match includes the tool set and the model, not the messages only (https://github.com/PrimeIntellect-ai/verifiers/pull/955)", async () => {
    const echo = [turn("four"), user("sure?")];
    const tools = [{ name: "Bash", description: "", parameters: {} }];
    expect(await verdict({ text: "four" }, echo, { tools })).toBe("CONTEXT_CHANGED");
    expect(await verdict({ text: "four" }, echo, { model: "n" })).toBe("MODEL_CHANGED");
  });

  test("an assistant turn that no engine produced is not a parent (https://github.com/radixark/miles/pull/1024)", async () => {
    expect(await verdict({ text: "four" }, [turn("Got it. Thanks!"), user("go")])).toBe(
      "NO_CANDIDATE",
    );
  });
});

describe("chains", () => {
  test("turn 2 that was conditioned on a re-tokenised turn 1 is not its continuation (https://github.com/verl-project/verl/issues/6854, https://github.com/verl-project/verl/issues/6719, https://github.com/PrimeIntellect-ai/prime-rl/issues/1352, https://github.com/sgl-project/sglang/issues/18378)", () => {
    const raw = call("a", [1], [10, 11], root);
    for (const verdict of [continues("a"), {}]) {
      const b = build([raw, call("b", [1, 12, 3], [4], verdict)]);
      expect(b.masked).toBe(true);
      expect(b.chain).toHaveLength(1);
    }
  });

  test("a title call that finishes first is neither shown nor trained (https://github.com/NVIDIA-NeMo/Gym/pull/3212)", async () => {
    const title = call("t", [9], [8], { ...root, purpose: "title", created_at: 1 });
    const main = call("m", [1], [2], {
      ...root,
      purpose: "main",
      created_at: 2,
      served_message_id: "end",
    });
    const row = await rowOf([title, main], { terminal: { messageId: "end" }, delivery: "all" });
    const [shown, other] = trajectoryRows(row);
    expect(isTrainable(shown)).toBe(true);
    expect([...flattenTrajectory(shown?.response).tokenIds]).toEqual([1, 2]);
    expect(isTrainable(other)).toBe(false);
  });

  test("a stray client in the sandbox is a root of its own, and no part of the answer's chain (https://github.com/PrimeIntellect-ai/verifiers/pull/1758)", () => {
    const main = call("m", [1], [2], root);
    const stray = call("s", [5], [6], { ...root, purpose: "main" });
    const end = call("n", [1, 2, 3], [4], { ...continues("m"), served_message_id: "end" });
    const b = build([stray, main, end], { terminal: { messageId: "end" } });
    expect(ids(b.chain)).toBe("mn");
    expect(b.masked).toBe(false);
    expect(build([stray, main, end]).masked).toBe(true);
  });

  test("every chain of a tree is delivered, each sampled token owned once (https://github.com/NVIDIA-NeMo/Gym/pull/3419, https://github.com/verl-project/verl/issues/5375, https://github.com/NovaSky-AI/SkyRL/issues/1959, https://github.com/verl-project/uni-agent/issues/51)", async () => {
    const tree = [
      call("a", [1], [2], root), // main
      call("b", [1, 2, 3], [4], continues("a")), // goes on
      call("c", [1, 2, 5], [6], continues("a")), // a branch
      call("s", [20], [21], { ...root, purpose: "subagent" }), // handoff
      call("k", [30], [31], root), // condensed history
      call("x", [1, 2, 3, 4, 7], [8], continues("b")), // retried
      call("y", [1, 2, 3, 4, 7], [9], continues("b")),
    ];
    const row = await rowOf(tree, { delivery: "all", ledgers: [ledger(tree, ["x"])] });
    const rows = trajectoryRows(row);
    expect(rows.every(isTrainable)).toBe(true);
    const sampled = rows.flatMap(({ response }) => {
      const { tokenIds, lossMask } = flattenTrajectory(response);
      return [...tokenIds].filter((_, at) => lossMask[at] === 1);
    });
    expect(sampled.sort((p, q) => p - q)).toEqual([2, 4, 6, 9, 21, 31]);
  });

  test("a chain keeps every step, not the last one only (https://github.com/PrimeIntellect-ai/prime-rl/pull/1383)", () => {
    const buffer = Int32Array.from({ length: 101 }, (_, at) => at);
    const steps = Array.from({ length: 50 }, (_, at) => {
      const verdict = at === 0 ? root : continues(`c${String(at - 1).padStart(2, "0")}`);
      const id = `c${String(at).padStart(2, "0")}`;
      return call(
        id,
        buffer.subarray(0, 2 * at + 1),
        buffer.subarray(2 * at + 1, 2 * at + 2),
        verdict,
      );
    });
    const { lossMask } = flattenTrajectory(rebuildResponse(build(steps)));
    expect(lossMask.reduce((sum, one) => sum + one, 0)).toBe(50);
  });

  test("a loss mask is never silently all zero (https://github.com/rllm-org/rllm/issues/352)", async () => {
    const row = await rowOf([call("a", [1], [], root)]);
    expect(row.mask_sample).toBe(true);
    expect(isTrainable({ ...row, mask_sample: undefined })).toBe(false);
  });

  test("a run whose engine has no tool parser looks healthy and says that it is not (awslabs/agentcore-rl-toolkit#97)", () => {
    const text = 'Sure. {"name": "Bash", "arguments": {"command": "ls"}}';
    const one = call("a", [1], [2], { ...root, tools_offered: 4, served_text: text });
    const b = build([one]);
    expect(b.masked).toBe(false);
    expect(b.metrics.warnings).toEqual(["SINGLE_CALL_WITH_TOOLS", "TOOL_MARKUP_IN_TEXT"]);
  });
});

function ledger(entries: readonly TokenEntry[], undeliveredCallIds: string[]) {
  const recordedCallIds = entries.map((entry) => entry.model_call_id);
  const none = { failed: 0, aborted: 0, captureLost: 0 };
  return { started: entries.length, recordedCallIds, undeliveredCallIds, ...none };
}
