/**
 * Title, compaction and sub-agent calls of the real CLI, sent into a running rollout at every position: the row is
 * masked, or it shows the chain that carries the answer.
 */
import { describe, expect, test } from "vitest";
import type { RolloutLedger } from "../../src/actors/rollout.js";
import {
  finalizeRolloutTokenCapture,
  isTrainable,
  type RolloutResult,
  type TokenCaptureStore,
} from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import { parseEvents, readMessage, type StreamedMessage } from "../support/messages-stream.js";
import {
  keyHeaders,
  postMessages,
  type RunningServer,
  recordedRequests,
  ScriptedEngine,
  startServer,
  storeCapture,
  toolCallText,
} from "../support/model-server.js";

type Body = ReturnType<typeof recordedRequests>[number]["body"];
type Message = Body["messages"][number];

const recorded = (name: string) => {
  const [found] = recordedRequests(`claude-code-2.1.197_${name}`);
  if (found === undefined) throw new Error(`no fixture ${name}`);
  return found;
};

/** One rollout over two workers, called as the CLI would. */
class LiveRollout {
  readonly store: TokenCaptureStore;
  readonly #workers: readonly RunningServer[];
  readonly #headers: Record<string, string>;
  #calls = 0;
  /** The main conversation so far. */
  history: Message[];
  readonly answers: StreamedMessage[] = [];

  private constructor(
    store: TokenCaptureStore,
    workers: readonly RunningServer[],
    headers: Record<string, string>,
  ) {
    this.store = store;
    this.#workers = workers;
    this.#headers = headers;
    this.history = [...recorded("main_turn1").body.messages];
  }

  static async open(): Promise<LiveRollout> {
    const { store } = temporaryStore();
    const engine = new ScriptedEngine();
    const workers = [
      await startServer({ engine, capture: storeCapture(store) }, { workerIndex: 0 }),
      await startServer({ engine, capture: storeCapture(store) }, { workerIndex: 1 }),
    ];
    const { epoch } = await store.open("r1");
    for (const { server } of workers)
      server.openRollout({ rolloutId: "r1", epoch, captured: true });
    const rollout = new LiveRollout(store, workers, keyHeaders("r1", epoch));
    // Every main call but the last one asks for a tool; side calls answer in text.
    engine.generate = async (request) => {
      const text = rollout.#script.get(request.sampling.seed) ?? "side<|im_end|>";
      const generation = await new ScriptedEngine([text]).generate(request);
      if (text === FAILS) throw new Error("engine down");
      return generation;
    };
    return rollout;
  }

  readonly #script = new Map<number, string>();

  async main(answer: string): Promise<void> {
    const seed = 1000 + this.#calls;
    this.#script.set(seed, answer);
    const { body } = recorded("main_turn1");
    const message = await this.send({ ...body, messages: this.history, seed });
    if (message === null) return;
    this.answers.push(message);
    const results = message.content
      .filter((block) => block["type"] === "tool_use")
      .map((block) => ({
        type: "tool_result",
        tool_use_id: block["id"],
        content: "",
        is_error: false,
      }));
    this.history = [
      ...this.history,
      { role: "assistant", content: message.content },
      ...(results.length > 0 ? [{ role: "user", content: results }] : []),
    ];
  }

  /** Null when it was refused. Calls go to the workers in turn. */
  async send(body: object, headers: Record<string, string> = {}): Promise<StreamedMessage | null> {
    const worker = this.#workers[this.#calls++ % 2] as RunningServer;
    const response = await postMessages(worker.base("r1"), body, { ...this.#headers, ...headers });
    const text = await response.text();
    return response.status === 200 ? readMessage(parseEvents(text)) : null;
  }

  /** Ids of the answered main calls. Freezes. */
  async mainCallIds() {
    const { entries } = await this.store.freeze("r1");
    return this.answers.map(
      ({ id }) => entries.find((entry) => entry.served_message_id === id)?.model_call_id,
    );
  }

  async deliver(terminal: object): Promise<RolloutResult> {
    const ledgers: RolloutLedger[] = await Promise.all(
      this.#workers.map(({ server }) => server.sealRollout("r1")),
    );
    const row: RolloutResult = { _ng_rollout_id: "r1", reward: 1, response: { output: [] } };
    await finalizeRolloutTokenCapture(row, this.store, { ledgers, terminal });
    return row;
  }
}

const FAILS = "fails";
const TOOL = `${toolCallText("Bash", { command: "ls", description: "run" })}<|im_end|>`;

const COMPACTION = { type: "text", text: "Respond with TEXT ONLY. Do NOT call any tools." };

const SIDE_CALLS: Record<string, (rollout: LiveRollout) => Promise<unknown>> = {
  title: (rollout) => rollout.send(recorded("aux_title").body),
  "a compaction of an earlier conversation": (rollout) =>
    rollout.send(recorded("aux_compact").body),
  "a compaction of this conversation": (rollout) => {
    const messages = [...rollout.history];
    const at = messages.findLastIndex(({ role }) => role !== "system");
    const { role, content } = messages[at] as Message;
    if (role === "user" && Array.isArray(content))
      messages[at] = { role, content: [...content, COMPACTION] };
    else messages.push({ role: "user", content: [COMPACTION] });
    return rollout.send({ ...recorded("main_turn1").body, messages });
  },
  "a sub-agent of two calls": async (rollout) => {
    const { body, headers } = recorded("subagent_turn1");
    const agent = { "x-claude-code-agent-id": headers["x-claude-code-agent-id"] ?? "a" };
    const first = await rollout.send(body, agent);
    const more = [
      { role: "assistant", content: first?.content },
      { role: "user", content: "go on" },
    ];
    await rollout.send({ ...body, messages: [...body.messages, ...more] }, agent);
  },
};

const callIdsOf = (row: RolloutResult) =>
  ((row.response as { output: { _ng_model_call?: { model_call_id: string } }[] }).output ?? [])
    .map((item) => item._ng_model_call?.model_call_id)
    .filter((id) => id !== undefined);

/** What the harness may know of its final answer. */
const terminalsOf = (answer: StreamedMessage | undefined) => [
  { messageId: answer?.id ?? null },
  { text: answer === undefined ? null : "all done" },
  {},
];

describe.each(Object.keys(SIDE_CALLS))("%s", (side) => {
  const send = SIDE_CALLS[side] as (rollout: LiveRollout) => Promise<unknown>;

  test.each([0, 1, 2, 3])("after %i main calls", async (position) => {
    const rollout = await LiveRollout.open();
    for (const [index, answer] of [TOOL, TOOL, "all done<|im_end|>"].entries()) {
      if (index === position) await send(rollout);
      await rollout.main(answer);
    }
    if (position === 3) await send(rollout);
    await expectMaskedOrMain(rollout);
  });

  test("beside every main call", async () => {
    const rollout = await LiveRollout.open();
    for (const answer of [TOOL, TOOL, "all done<|im_end|>"])
      await Promise.all([send(rollout), rollout.main(answer)]);
    await expectMaskedOrMain(rollout);
  });

  test.each([0, 1])("when main call %i and all later ones fail", async (failing) => {
    const rollout = await LiveRollout.open();
    for (let call = 0; call < failing; call++) await rollout.main(TOOL);
    await send(rollout);
    await rollout.main(FAILS);
    const main = await rollout.mainCallIds();
    for (const terminal of terminalsOf(rollout.answers.at(-1))) {
      const row = await rollout.deliver(terminal);
      // Only the main call that the harness names as its answer may stand, and then alone.
      if (isTrainable(row)) expect([terminal, callIdsOf(row)]).toEqual([namesAnswer, main]);
    }
  });
});

const namesAnswer = { messageId: expect.any(String) };

async function expectMaskedOrMain(rollout: LiveRollout) {
  expect(rollout.answers).toHaveLength(3);
  const main = await rollout.mainCallIds();
  for (const terminal of terminalsOf(rollout.answers.at(-1))) {
    const row = await rollout.deliver(terminal);
    if (row.mask_sample !== true) expect(callIdsOf(row)).toEqual(main);
    else if (Object.keys(terminal).length > 0) expect(callIdsOf(row)).toContain(main.at(-1));
  }
}

test("without a side call the same rollout is trainable", async () => {
  const rollout = await LiveRollout.open();
  for (const answer of [TOOL, TOOL, "all done<|im_end|>"]) await rollout.main(answer);
  const row = await rollout.deliver({ messageId: rollout.answers.at(-1)?.id });
  expect(isTrainable(row)).toBe(true);
  expect(callIdsOf(row)).toHaveLength(3);
});
