/**
 * Mutated bodies of every dialect against a capturing server: a right answer or an error in the dialect's shape, never
 * another status, and the store holds exactly what was answered. `CORRAL_FUZZ=20000` is the long form.
 */
import { expect, test } from "vitest";
import { mutated, Random } from "../support/body-mutations.js";
import { temporaryStore } from "../support/capture.js";
import { post, WIRE_DIALECTS, type WireAnswer, type WireDialect } from "../support/dialect-wire.js";
import {
  emitted,
  keyHeaders,
  recordedRequests,
  ScriptedEngine,
  startServer,
  storeCapture,
  toolCallText,
} from "../support/model-server.js";

const BODIES = Number(process.env["CORRAL_FUZZ"] ?? 300);
const PER_ROLLOUT = 25;
const TIMEOUT_MS = 60_000 + BODIES * 200;

/** A fresh conversation, one that goes on, and a small recorded one. */
function seeds(dialect: WireDialect): object[] {
  const call = { id: "call_1", name: "Bash", input: { command: "ls" } };
  const raw = {
    messages: {
      content: [
        { type: "text", text: "a" },
        { type: "tool_use", ...call },
      ],
    },
    chat: {
      choices: [
        {
          message: {
            role: "assistant",
            content: "a",
            reasoning_content: "hm",
            tool_calls: [
              { id: "call_1", type: "function", function: { name: "Bash", arguments: "{}" } },
            ],
          },
        },
      ],
    },
    responses: {
      output: [
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "hm" }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "a" }] },
        { type: "function_call", call_id: "call_1", name: "Bash", arguments: "{}" },
      ],
    },
  }[dialect.name];
  const answer: WireAnswer = { id: "", toolIds: ["call_1"], inputTokens: 0, outputTokens: 0, raw };
  const fresh = dialect.request("policy", "go");
  const recorded = { messages: "claude-code-2.1.197_bare", chat: "pi-0.73.1_chat", responses: "" };
  const prefix = recorded[dialect.name];
  return [
    fresh,
    { ...fresh, stream: true },
    { ...dialect.next(fresh, answer, "r"), stream: true },
    ...(prefix === "" ? [] : recordedRequests(prefix).map(({ body }) => body)),
  ];
}

test.each(Object.values(WIRE_DIALECTS))(
  `$name: ${BODIES} mutated bodies`,
  async (dialect) => {
    const { store } = temporaryStore();
    const turn = await emitted(`a${toolCallText("Bash", { command: "ls" })}<|im_end|>`);
    const engine = new ScriptedEngine();
    engine.generate = async () => ({
      tokenIds: turn,
      logProbs: Float64Array.from(turn, () => -0.5),
      logprobsMode: "processed",
      finishReason: "stop",
      policyVersionStart: 0,
      policyVersionEnd: 0,
    });
    const { server, base } = await startServer({ engine, capture: storeCapture(store) });
    const bases = seeds(dialect);
    const statuses = new Map<number, number>();
    for (let from = 0; from < BODIES; from += PER_ROLLOUT) {
      const rolloutId = `f${from}`;
      const { epoch } = await store.open(rolloutId);
      server.openRollout({ rolloutId, epoch, captured: true });
      const answered: string[] = [];
      const one = async (seed: number) => {
        const random = new Random(seed);
        const body = mutated(bases[random.below(bases.length)] ?? {}, random);
        const { status, id } = await answerTo(base(rolloutId), dialect, body, rolloutId, epoch);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (id !== null) answered.push(id);
      };
      const count = Math.min(PER_ROLLOUT, BODIES - from);
      await Promise.all(Array.from({ length: count }, (_, index) => one(from + index)));
      const ledger = await server.sealRollout(rolloutId);
      const { entries, incomplete } = await store.freeze(rolloutId);
      expect(incomplete).toBe(false);
      expect(ledger).toMatchObject({ started: answered.length, failed: 0, captureLost: 0 });
      const served = entries.map((entry) => entry.served_message_id);
      expect(served.sort()).toEqual(answered.sort());
    }
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== 400)).toEqual([]);
    expect(statuses.get(200)).toBeGreaterThan(BODIES / 10);
    expect(statuses.get(400)).toBeGreaterThan(BODIES / 10);
  },
  TIMEOUT_MS,
);

/** The served id of an answer, null for an error; a wrong shape of either throws with the body. */
async function answerTo(
  base: string,
  dialect: WireDialect,
  body: string,
  rolloutId: string,
  epoch: number,
): Promise<{ status: number; id: string | null }> {
  const response = await post(base, dialect, body, keyHeaders(rolloutId, epoch));
  const text = await response.text();
  try {
    if (response.status !== 200) {
      const { type, message } = dialect.error(JSON.parse(text));
      expect(type).toBe("invalid_request_error");
      expect(message).not.toBe("");
      return { status: response.status, id: null };
    }
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    const asked = JSON.parse(body);
    expect(isStream).toBe(asked.stream === true);
    const read =
      dialect.name === "chat" && isStream && asked.stream_options?.include_usage !== true
        ? { id: /"id":"(chatcmpl-[^"]+)"/.exec(text)?.[1] ?? "" }
        : dialect.read(text, isStream);
    return { status: 200, id: read.id };
  } catch (error) {
    throw new Error(`${response.status} ${text.slice(0, 500)}\nbody: ${body.slice(0, 2000)}`, {
      cause: error,
    });
  }
}
