/** How the history of a real harness differs from what was served: what lineage must survive, and what it must refuse. */
import { describe, expect, test } from "vitest";
import {
  type Conversation,
  contextDigest,
  FINGERPRINT_VERSION,
  type LineageNode,
  resolveParent,
  type ServedToolCall,
} from "../../../../src/capture/index.js";
import { conversationOf } from "../../../support/conversations.js";

const tool = (name: string, properties: object) => ({
  name,
  description: name,
  input_schema: { type: "object", properties },
});
const TOOLS = [
  tool("Bash", {
    command: { type: "string" },
    description: { type: "string" },
    timeout: { type: "number" },
    run_in_background: { type: "boolean" },
  }),
  tool("Edit", {
    file_path: { type: "string" },
    old_string: { type: "string" },
    new_string: { type: "string" },
    replace_all: { type: "boolean", default: false },
  }),
  tool("Write", { file_path: { type: "string" }, content: { type: "string" } }),
];

const user = (content: unknown) => ({ role: "user", content });
const assistant = (...content: unknown[]) => ({ role: "assistant", content });
const text = (value: string, more = {}) => ({ type: "text", text: value, ...more });
const use = (id: string, name: string, input: unknown) => ({ type: "tool_use", id, name, input });
const result = (id: string, content: unknown = "ok") => ({
  type: "tool_result",
  tool_use_id: id,
  content,
});
const body = (messages: readonly object[], more: object = {}) => ({
  model: "policy",
  max_tokens: 64,
  system: "agent",
  tools: TOOLS,
  messages,
  ...more,
});
const first = body([user("do it")]);

interface Served {
  readonly text?: string;
  readonly toolCalls?: readonly ServedToolCall[];
}
const bash = (input: unknown, id = "toolu_1"): ServedToolCall => ({
  id,
  name: "Bash",
  arguments: input,
});

function node(modelCallId: string, seen: Conversation, served: Served): LineageNode {
  return {
    modelCallId,
    model: seen.model,
    contextDigest: contextDigest(seen, seen.messages.length),
    contextLength: seen.messages.length,
    fingerprintVersion: FINGERPRINT_VERSION,
    servedText: served.text ?? "",
    servedToolCalls: served.toolCalls ?? [],
    finishReason: "stop",
    cumLen: 9,
    cumulativeDigest: modelCallId,
  };
}

/** The verdict on `next` when the call that saw `seen` served `served`. */
async function verdict(seen: object, served: Served, next: object): Promise<string> {
  const recorded = node("parent", conversationOf.messages(seen), served);
  const found = await resolveParent(conversationOf.messages(next), "r", {
    candidates: async () => [recorded],
  });
  if (found.resolution === "UNRESOLVED") return found.reason;
  return found.resolution;
}

const bashTurn = (input: unknown, more: unknown[] = []) =>
  body([
    user("do it"),
    assistant(...more, use("toolu_1", "Bash", input)),
    user([result("toolu_1")]),
  ]);
const toolTurn = (name: string, input: unknown) =>
  body([user("do it"), assistant(use("toolu_1", name, input)), user([result("toolu_1")])]);
const served = (name: string, input: unknown): Served => ({
  toolCalls: [{ id: "toolu_1", name, arguments: input }],
});

const survived: [string, Served, object][] = [
  [
    "keys in the order of the schema",
    { toolCalls: [bash({ timeout: 5, command: "ls", description: "d" })] },
    bashTurn({ command: "ls", description: "d", timeout: 5 }),
  ],
  [
    "5000.0, \\u00e9 and \\/ written anew",
    { toolCalls: [bash(JSON.parse('{"timeout":5000.0,"command":"r\\u00e9 \\/"}'))] },
    bashTurn({ timeout: 5000, command: "ré /" }),
  ],
  [
    "a number and a boolean that were strings",
    { toolCalls: [bash({ timeout: "5000", run_in_background: "false", command: "ls" })] },
    bashTurn({ command: "ls", timeout: 5000, run_in_background: false }),
  ],
  [
    "replace_all added, as first key",
    served("Edit", { file_path: "a", old_string: "x", new_string: "y" }),
    toolTurn("Edit", { replace_all: false, file_path: "a", old_string: "x", new_string: "y" }),
  ],
  [
    "trailing blanks of lines stripped",
    served("Write", { file_path: "a", content: "tail space  \n\n" }),
    toolTurn("Write", { file_path: "a", content: "tail space\n\n" }),
  ],
  [
    "an unknown key that is kept",
    { toolCalls: [bash({ command: "ls", extra: 1 })] },
    bashTurn({ command: "ls", extra: 1 }),
  ],
  [
    "a whitespace-only text that is dropped",
    { text: " \n", toolCalls: [bash({ command: "ls" })] },
    bashTurn({ command: "ls" }),
  ],
  [
    "a text moved before the tool call",
    { text: "after", toolCalls: [bash({ command: "ls" })] },
    bashTurn({ command: "ls" }, [text("after")]),
  ],
  [
    "cut JSON in __unparsedToolInput",
    { toolCalls: [bash('{"command": "l')] },
    bashTurn({ __unparsedToolInput: { raw: '{"command": "l', len: 14 } }),
  ],
  ["empty arguments", { toolCalls: [bash("")] }, bashTurn({})],
  [
    "a text with blanks, U+2028 and no ASCII",
    { text: "  é\u2028 \n", toolCalls: [bash({ command: "ls" })] },
    bashTurn({ command: "ls" }, [text("  é\u2028 \n")]),
  ],
  [
    "thinking blocks, with or without a signature",
    { toolCalls: [bash({ command: "ls" })] },
    bashTurn({ command: "ls" }, [{ type: "thinking", thinking: "hm", signature: "" }]),
  ],
  [
    "block form, a moved cache mark, another billing line",
    { toolCalls: [bash({ command: "ls" })] },
    body(
      [
        user([text("do it")]),
        assistant(use("toolu_1", "Bash", { command: "ls" })),
        user([{ ...result("toolu_1", [text("ok")]), cache_control: { type: "ephemeral" } }]),
      ],
      {
        system: [
          text("x-anthropic-billing-header: cc_version=2.1.197.b96; cch=0aaa9;"),
          text("agent", { cache_control: { type: "ephemeral" } }),
        ],
      },
    ),
  ],
  [
    "parallel calls whose results come in completion order",
    { toolCalls: [bash({ command: "sleep 1" }), bash({ command: "ls" }, "toolu_2")] },
    body([
      user("do it"),
      assistant(
        use("toolu_1", "Bash", { command: "sleep 1" }),
        use("toolu_2", "Bash", { command: "ls" }),
      ),
      user([result("toolu_2"), result("toolu_1")]),
    ]),
  ],
];

describe("what real harnesses rewrite", () => {
  test.each(survived)("survives %s", async (_, said, next) => {
    expect(await verdict(first, said, next)).toBe("RESOLVED");
  });
});

const ls: Served = { toolCalls: [bash({ command: "ls", timeout: 5 })] };
const refused: [string, Served, object, string][] = [
  ["another tool name", ls, toolTurn("Edit", { command: "ls", timeout: 5 }), "ECHO_CHANGED"],
  ["another value", ls, bashTurn({ command: "ls", timeout: 6 }), "ECHO_CHANGED"],
  ["a value that became a string", ls, bashTurn({ command: "ls", timeout: "5" }), "ECHO_CHANGED"],
  [
    "a string that became a number where the schema says string",
    { toolCalls: [bash({ command: "5" })] },
    bashTurn({ command: 5 }),
    "ECHO_CHANGED",
  ],
  ["a missing key", ls, bashTurn({ command: "ls" }), "ECHO_CHANGED"],
  [
    "replace_all: true added",
    served("Edit", { old_string: "x" }),
    toolTurn("Edit", { replace_all: true, old_string: "x" }),
    "ECHO_CHANGED",
  ],
  [
    "a text that was added",
    ls,
    bashTurn({ command: "ls", timeout: 5 }, [text("so")]),
    "ECHO_CHANGED",
  ],
  [
    "calls in another order",
    { toolCalls: [bash({ command: "a" }), bash({ command: "b" }, "toolu_2")] },
    body([
      user("do it"),
      assistant(use("toolu_2", "Bash", { command: "b" }), use("toolu_1", "Bash", { command: "a" })),
      user([result("toolu_2"), result("toolu_1")]),
    ]),
    "ECHO_CHANGED",
  ],
  [
    "another system prompt",
    ls,
    { ...bashTurn({ command: "ls", timeout: 5 }), system: "agent 2" },
    "CONTEXT_CHANGED",
  ],
  [
    "billing text that is not the first system line",
    ls,
    { ...bashTurn({ command: "ls", timeout: 5 }), system: "agent\nx-anthropic-billing-header: 1" },
    "CONTEXT_CHANGED",
  ],
  [
    "another tool set",
    ls,
    { ...bashTurn({ command: "ls", timeout: 5 }), tools: TOOLS.slice(0, 2) },
    "CONTEXT_CHANGED",
  ],
  [
    "another model",
    ls,
    { ...bashTurn({ command: "ls", timeout: 5 }), model: "p2" },
    "MODEL_CHANGED",
  ],
  [
    "an edited user turn",
    ls,
    body([
      user("do that"),
      assistant(use("toolu_1", "Bash", { command: "ls", timeout: 5 })),
      user([result("toolu_1")]),
    ]),
    "CONTEXT_CHANGED",
  ],
];

describe("what really differs", () => {
  test.each(refused)("refuses %s", async (_, said, next, reason) => {
    expect(await verdict(first, said, next)).toBe(reason);
  });

  test("a billing nonce at the head of the system prompt changes nothing, in string and list form (https://github.com/anthropics/claude-code/issues/68900, https://github.com/vllm-project/vllm/pull/36829, https://github.com/sgl-project/sglang/pull/21064)", async () => {
    const line = (nonce: string) => `x-anthropic-billing-header: cc_version=2.1; cch=${nonce};`;
    const list = (nonce: string) => [text(line(nonce)), text("agent")];
    const string = (nonce: string) => `${line(nonce)}\nagent`;
    const next = bashTurn({ command: "ls", timeout: 5 });
    for (const [seen, sent] of [
      [list("36ee5"), list("0aaa9")],
      [string("36ee5"), string("0aaa9")],
      [list("36ee5"), string("0aaa9")],
      ["agent", list("0aaa9")],
    ])
      expect(await verdict({ ...first, system: seen }, ls, { ...next, system: sent })).toBe(
        "RESOLVED",
      );
    // A user's text of that form is the user's.
    const asked = { ...first, messages: [user(line("36ee5"))] };
    const edited = { ...next, messages: [user(line("0aaa9")), ...next.messages.slice(1)] };
    expect(await verdict(asked, ls, edited)).toBe("CONTEXT_CHANGED");
  });

  test("refuses a tool result that was truncated after the model saw it", async () => {
    const history = (seen: string) => [
      user("do it"),
      assistant(use("toolu_0", "Bash", { command: "cat big" })),
      user([result("toolu_0", seen)]),
    ];
    const next = (seen: string) =>
      body([
        ...history(seen),
        assistant(use("toolu_1", "Bash", { command: "ls", timeout: 5 })),
        user([result("toolu_1")]),
      ]);
    const full = "a long result";
    expect(await verdict(body(history(full)), ls, next(full))).toBe("RESOLVED");
    expect(await verdict(body(history(full)), ls, next("a long…"))).toBe("CONTEXT_CHANGED");
    expect(
      await verdict(
        body(history(full)),
        ls,
        body([
          ...history(full).slice(0, 2),
          user([{ ...result("toolu_0", full), is_error: true }]),
          assistant(use("toolu_1", "Bash", { command: "ls", timeout: 5 })),
          user([result("toolu_1")]),
        ]),
      ),
    ).toBe("CONTEXT_CHANGED");
  });
});
