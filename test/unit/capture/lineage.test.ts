import { describe, expect, it } from "vitest";
import {
  type AssistantTurn,
  type Compaction,
  type Conversation,
  type ConversationMessage,
  contextDigest,
  FINGERPRINT_VERSION,
  type LineageKey,
  type LineageNode,
  resolveParent,
} from "../../../src/capture/index.js";

const user = (text: string): ConversationMessage => ({ role: "user", text });
const tool = (toolCallId: string, text: string): ConversationMessage => ({
  role: "tool",
  toolCallId,
  text,
  isError: false,
});
const turn = (text: string, ...calls: [string, string, unknown][]): AssistantTurn => ({
  role: "assistant",
  text,
  toolCalls: calls.map(([id, name, args]) => ({ id, name, arguments: args })),
});

const base: Conversation = {
  model: "m",
  system: "be brief",
  tools: [{ name: "Bash", description: "runs", parameters: { type: "object", a: 1, b: 2 } }],
  messages: [user("do it")],
};
const extend = (...messages: ConversationMessage[]): Conversation => ({
  ...base,
  messages: [...base.messages, ...messages],
});

/** The node of a call that saw `seen` and served `served`. */
function node(
  id: string,
  seen: Conversation,
  served: AssistantTurn,
  more: Partial<LineageNode> = {},
): LineageNode {
  return {
    modelCallId: id,
    model: seen.model,
    contextDigest: contextDigest(seen, seen.messages.length),
    contextLength: seen.messages.length,
    fingerprintVersion: FINGERPRINT_VERSION,
    servedText: served.text,
    servedToolCalls: served.toolCalls,
    finishReason: "stop",
    cumLen: 10,
    cumulativeDigest: `digest-${id}`,
    ...more,
  };
}

/** Every call of the rollout, found as a store finds them. */
function lineageOf(...nodes: LineageNode[]) {
  const keys: LineageKey[] = [];
  return {
    keys,
    async candidates(_rolloutId: string, key: LineageKey) {
      keys.push(key);
      return nodes.filter((candidate) =>
        key.kind === "text"
          ? candidate.servedText === key.text && candidate.servedToolCalls.length === 0
          : candidate.servedToolCalls.some((call) => key.ids.includes(call.id)),
      );
    },
  };
}

const bash = turn("I look.", ["t1", "Bash", { command: "ls", timeout: "5000" }]);
const parent = node("a", base, bash);
const result = tool("t1", "file");
const follow = extend(bash, result);

async function verdict(conversation: Conversation, ...nodes: LineageNode[]): Promise<string> {
  const found = await resolveParent(conversation, "r", lineageOf(...nodes));
  if (found.resolution === "RESOLVED") return found.parent.modelCallId;
  return found.resolution === "ROOT" ? "ROOT" : found.reason;
}

describe("verdicts", () => {
  it("no assistant turn is a ROOT, whatever was recorded", async () => {
    expect(await verdict(base, parent)).toBe("ROOT");
    expect(await verdict({ ...base, messages: [] })).toBe("ROOT");
  });

  it("L1 looks up the newest turn by its tool-call ids, else by its text", async () => {
    const lineage = lineageOf(parent);
    expect(await resolveParent(follow, "r", lineage)).toEqual({
      resolution: "RESOLVED",
      parent,
      appended: [result],
    });
    await resolveParent(extend(turn("hello"), user("go on")), "r", lineage);
    expect(lineage.keys).toEqual([
      { kind: "tool_call_ids", ids: ["t1"] },
      { kind: "text", text: "hello" },
    ]);
  });

  it("L1 resolves a turn without tools by its exact text", async () => {
    const said = turn("  four\n");
    const node4 = node("b", base, said);
    expect(await verdict(extend(said, user("more")), node4)).toBe("b");
    expect(await verdict(extend(turn("four"), user("more")), node4)).toBe("NO_CANDIDATE");
  });

  const echoed = (...calls: [string, string, unknown][]) =>
    extend(turn("I look.", ...calls), result);
  const table: [string, Conversation, LineageNode, string][] = [
    [
      "arguments as a harness rewrites them",
      echoed(["t1", "Bash", { timeout: 5000, command: "ls" }]),
      parent,
      "a",
    ],
    [
      "another value",
      echoed(["t1", "Bash", { command: "ls -a", timeout: "5000" }]),
      parent,
      "ECHO_CHANGED",
    ],
    [
      "another tool name",
      echoed(["t1", "Read", { command: "ls", timeout: "5000" }]),
      parent,
      "ECHO_CHANGED",
    ],
    [
      "a tool call more",
      extend(
        turn(
          "I look.",
          ...bash.toolCalls.map((c): [string, string, unknown] => [c.id, c.name, c.arguments]),
          ["t2", "Bash", {}],
        ),
        result,
      ),
      parent,
      "ECHO_CHANGED",
    ],
    ["another text", extend({ ...bash, text: "I looked." }, result), parent, "ECHO_CHANGED"],
    [
      "dropped blank text",
      extend({ ...bash, text: "" }, result),
      node("a", base, { ...bash, text: " \n" }),
      "a",
    ],
    ["another model", { ...follow, model: "n" }, parent, "MODEL_CHANGED"],
    ["an older fingerprint", follow, { ...parent, fingerprintVersion: 0 }, "FINGERPRINT_VERSION"],
    ["another system prompt", { ...follow, system: "be long" }, parent, "CONTEXT_CHANGED"],
    ["another tool set", { ...follow, tools: [] }, parent, "CONTEXT_CHANGED"],
    [
      "an edited user turn",
      { ...follow, messages: [user("do that"), bash, result] },
      parent,
      "CONTEXT_CHANGED",
    ],
    [
      "an inserted turn",
      { ...follow, messages: [user("do it"), user("now"), bash, result] },
      parent,
      "CONTEXT_CHANGED",
    ],
    ["a shorter history", { ...follow, messages: [bash, result] }, parent, "CONTEXT_CHANGED"],
    ["tool ids nobody served", echoed(["x9", "Bash", { command: "ls" }]), parent, "FOREIGN_TURN"],
    ["a seeded answer (qwen)", extend(turn("Got it."), user("go")), parent, "NO_CANDIDATE"],
    ["an empty turn", extend(turn(" "), user("go")), parent, "FOREIGN_TURN"],
    ["nothing appended", extend(bash), parent, "NOTHING_APPENDED"],
    [
      "L4 a parent cut by its limit",
      follow,
      { ...parent, finishReason: "length" },
      "PARENT_TRUNCATED",
    ],
  ];
  it.each(table)("L2 %s", async (_, conversation, recorded, want) => {
    expect(await verdict(conversation, recorded)).toBe(want);
  });

  it("L2 refuses an edit of an earlier turn, and accepts parallel results in any order", async () => {
    const both = turn("", ["t2", "Bash", { command: "a" }], ["t3", "Bash", { command: "b" }]);
    const second = node("b", follow, both);
    const results = [tool("t3", "B"), tool("t2", "A")];
    const next = { ...base, messages: [...follow.messages, both, ...results] };
    expect(await verdict(next, parent, second)).toBe("b");
    const edited = turn("I look.", ["t1", "Bash", { command: "rm", timeout: "5000" }]);
    const changed = { ...next, messages: [user("do it"), edited, result, both, ...results] };
    expect(await verdict(changed, parent, second)).toBe("CONTEXT_CHANGED");
  });

  it("L3 never guesses between calls with unlike tokens", async () => {
    const said = turn("done");
    const next = extend(said, user("more"));
    const [a, b] = [node("a", base, said), node("b", base, said)];
    expect(await verdict(next, b, a)).toBe("AMBIGUOUS_PARENT");
    const twin = { ...b, cumulativeDigest: a.cumulativeDigest };
    expect(await verdict(next, twin, a)).toBe("a");
    expect(await verdict(next, twin, { ...a, finishReason: "length" })).toBe("PARENT_TRUNCATED");
    const elsewhere = node("b", { ...base, system: "other" }, said);
    expect(await verdict(next, elsewhere, a)).toBe("a");
  });

  it("a lineage that fails is the caller's to handle", async () => {
    const broken = { candidates: () => Promise.reject(new Error("gone")) };
    await expect(resolveParent(follow, "r", broken)).rejects.toThrow("gone");
  });
});

describe("context digest", () => {
  it("is pinned: a change of the normalisation must raise FINGERPRINT_VERSION", () => {
    // Made by another program: sha256 of sorted-key JSON of {version, model, system, tools, messages}.
    expect(FINGERPRINT_VERSION).toBe(1);
    expect(contextDigest(base, 1)).toBe(
      "33474ed8a5cac786d4a313de0f3e6c550e59bdeb200494da2a51c77bbc42c767",
    );
    expect(contextDigest(follow, 3)).toBe(
      "735c5433d52f0b667bf862a90527ea5ee1115c6b39845c0a624ede26b3ee5dc7",
    );
    expect(contextDigest({ model: "", system: "", tools: [], messages: [] }, 0)).toBe(
      "6d28c839fe79798bb236ef9fe91fe5a816b86890d55a869112fbe5f1ff5858fc",
    );
  });

  it("ignores key order in schemas, reasoning, and what comes after the counted messages", () => {
    const parameters = { b: 2, a: 1, type: "object" };
    const reordered = { ...base, tools: [{ name: "Bash", description: "runs", parameters }] };
    expect(contextDigest(reordered, 1)).toBe(contextDigest(base, 1));
    expect(contextDigest(follow, 1)).toBe(contextDigest(base, 1));
    const thinking = extend({ ...bash, reasoning: "hm" }, result);
    expect(contextDigest(thinking, 3)).toBe(contextDigest(follow, 3));
  });

  it("tells roles, ids, error marks and lone surrogates apart", () => {
    const digests = [
      extend(user("x")),
      extend({ role: "system", text: "x" }),
      extend(tool("t1", "x")),
      extend(tool("t2", "x")),
      extend({ role: "tool", toolCallId: "t1", text: "x", isError: true }),
      extend(user("\ud800")),
      extend(user("\ufffd")),
    ].map((conversation) => contextDigest(conversation, 2));
    expect(new Set(digests).size).toBe(digests.length);
  });
});

describe("L5 a history of a served summary and one round", () => {
  const seen = extend();
  const served = turn("", ["t1", "Bash", { command: "ls" }]);
  const compacted = (first: string, echoed = served, ...between: ConversationMessage[]) => ({
    ...base,
    messages: [user(first), ...between, echoed, tool("t1", "a.txt")],
  });
  const summary =
    "<analysis>think</analysis>\n\n<summary>\n1. It listed files.\n\n\n2. No more.\n</summary>";
  const written =
    "This session is continued.\n\nSummary:\n1. It listed files.\n\n2. No more.\nGo on.";
  const of = (servedText: string, more: Partial<Compaction> = {}): Compaction => ({
    servedText,
    frameDigest: contextDigest(base, 0),
    earlierCallIds: new Set(["a"]),
    ...more,
  });
  const resolve = (conversation: Conversation, ...compactions: Compaction[]) =>
    resolveParent(conversation, "r", lineageOf(node("a", seen, served)), compactions);
  const root = { resolution: "ROOT", reason: "COMPACTED" };
  const unresolved = (reason: string) => ({ resolution: "UNRESOLVED", reason });

  it("is a tree of its own, with tags gone and blank lines joined", async () => {
    expect(await resolve(compacted(written), of("another summary, not this"), of(summary))).toEqual(
      root,
    );
    const plain = "It was all done at once.";
    expect(await resolve(compacted(`So far: ${plain} Go on.`), of(plain))).toEqual(root);
  });

  it.each<[string, Conversation, Compaction[]]>([
    ["no compaction was served", compacted(written), []],
    ["another was", compacted(written), [of("<summary>something else entirely</summary>")]],
    ["it was edited", compacted(written.replace("No more", "Much more")), [of(summary)]],
    ["it is blank", compacted(written), [of("<summary> </summary>"), of(" ")]],
    ["it is too short to tell", compacted(written), [of("listed files.")]],
    [
      "the round is younger than it",
      compacted(written),
      [of(summary, { earlierCallIds: new Set() })],
    ],
    ["the system prompt is another", { ...compacted(written), system: "be rude" }, [of(summary)]],
    ["the tools are others", { ...compacted(written), tools: [] }, [of(summary)]],
    ["a turn was put before the round", compacted(written, served, turn("I did")), [of(summary)]],
  ])("is UNRESOLVED when %s", async (_why, conversation, compactions) => {
    expect(await resolve(conversation, ...compactions)).toEqual(unresolved("CONTEXT_CHANGED"));
  });

  it("is UNRESOLVED when the round is no faithful echo", async () => {
    const echoed = turn("", ["t1", "Bash", { command: "rm" }]);
    expect(await resolve(compacted(written, echoed), of(summary))).toEqual(
      unresolved("ECHO_CHANGED"),
    );
  });

  it("stays one tree: a later edit is UNRESOLVED", async () => {
    const first = compacted(written);
    const next = turn("", ["t2", "Bash", { command: "cat a.txt" }]);
    const lineage = lineageOf(node("a", seen, served), node("b", first, next));
    const edited = [user(written), served, tool("t1", "[cleared]"), next, tool("t2", "x")];
    const asked = { ...base, messages: edited };
    expect(await resolveParent(asked, "r", lineage, [of(summary)])).toEqual(
      unresolved("CONTEXT_CHANGED"),
    );
  });
});
