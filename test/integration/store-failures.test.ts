/** The store fails under a call, with every part in its own thread: the harness gets its answer, the row is masked. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {
  captureStore,
  type FinishedRollout,
  modelServer,
  rolloutConsumer,
  rolloutKey,
} from "corral/actors";
import { isTrainable } from "corral/capture";
import { untrainedSnapshot } from "corral/embedded-policy";
import { createRuntime, type Runtime } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { finalizeRolloutTokenCapture } from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import { ManualClock } from "../support/manual-clock.js";
import { parseEvents, readMessage } from "../support/messages-stream.js";
import {
  ACTOR_SETTINGS,
  keyHeaders,
  postMessages,
  SECRET,
  startServer,
  storeCapture,
  userRequest,
} from "../support/model-server.js";

let runtime: Runtime;
let directory: string;
beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "corral-failures-"));
  const ignore = () => undefined;
  const logger = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  runtime = await createRuntime({ logger });
});
afterEach(async () => {
  await runtime.shutdown({ deadlineMs: 5000 });
  fs.rmSync(directory, { recursive: true, force: true });
});

const TOOLS = [
  { name: "Bash", input_schema: { type: "object", properties: { command: { type: "string" } } } },
];

async function start(putTimeoutMs = 2000) {
  const dir = path.join(directory, "store");
  const shared = { maxConcurrency: 64 };
  const store = await runtime.spawn(captureStore, { dir }, shared);
  const policy = await untrainedSnapshot();
  const servers = await Promise.all(
    [0, 1].map(async (workerIndex) => {
      const engine = { kind: "embedded" as const, policy };
      const capture = { kind: "store" as const, store };
      const limits = { putTimeoutMs };
      const options = { ...ACTOR_SETTINGS, workerIndex, engine, capture, limits };
      return runtime.spawn(modelServer, options, shared);
    }),
  );
  const files = {
    journalPath: path.join(directory, "journal.jsonl"),
    outPath: path.join(directory, "out.jsonl"),
  };
  const consumer = await runtime.spawn(
    rolloutConsumer,
    { ...files, store, servers, rebuildResponse: true },
    shared,
  );
  const urls = await Promise.all(servers.map((server) => server.call.address()));
  const open = async (rolloutId: string) => {
    const { epoch } = await store.call.open(rolloutId);
    for (const server of servers)
      await server.call.openRollout({ rolloutId, epoch, captured: true });
    const headers = {
      "x-api-key": rolloutKey(SECRET, rolloutId, epoch),
      "content-type": "application/json",
    };
    const bases = urls.map(({ url }) => `${url}/ng-rollout/${rolloutId}/training-token-capture`);
    return new Harness(bases, headers);
  };
  const deliver = async (rolloutIndex: number) => {
    const report = await consumer.call.deliver(finished(rolloutIndex));
    const rows = fs.readFileSync(files.outPath, "utf8").trim().split("\n");
    return { report, row: JSON.parse(rows.at(-1) ?? "") as Record<string, unknown> };
  };
  return { dir, store, servers, open, deliver };
}

/** Calls the two workers in turn; every answer must be whole. */
class Harness {
  readonly #bases: readonly string[];
  readonly #headers: Record<string, string>;
  readonly #messages: object[] = [
    { role: "user", content: "Write the word heron into the file plan.txt." },
  ];
  #calls = 0;

  constructor(bases: readonly string[], headers: Record<string, string>) {
    this.#bases = bases;
    this.#headers = headers;
  }

  async callUntil(count: number): Promise<void> {
    while (this.#calls < count) {
      const messages = this.#messages;
      const body = { model: "policy", max_tokens: 64, stream: true, tools: TOOLS, messages };
      const base = this.#bases[this.#calls++ % 2] ?? "";
      const response = await postMessages(base, body, this.#headers);
      expect(response.status).toBe(200);
      const { content } = readMessage(parseEvents(await response.text()));
      expect(content.length).toBeGreaterThan(0);
      const results = content
        .filter((block) => block["type"] === "tool_use")
        .map((block) => ({ type: "tool_result", tool_use_id: block["id"], content: "ok" }));
      const next = results.length > 0 ? results : "Go on.";
      messages.push({ role: "assistant", content }, { role: "user", content: next });
    }
  }
}

function finished(rolloutIndex: number): FinishedRollout {
  return {
    slot: { pass: 0, taskIndex: 0, rolloutIndex },
    attempt: 0,
    rolloutId: `0-${rolloutIndex}`,
    captured: true,
    task: { _ng_task_index: 0, responses_create_params: { input: "x" } },
    model: "policy",
    outcome: {
      completed: true,
      finalText: null,
      finalMessageId: null,
      reward: 1,
      failure: null,
      exitCode: 0,
      stderrTail: "",
      wallMs: 1,
    },
  };
}

type Started = Awaited<ReturnType<typeof start>>;
const FAILURES: Record<string, (parts: Started) => unknown> = {
  "the writer is killed": ({ store }) => store.kill(),
  "the database file is removed": ({ dir }) => fs.rmSync(path.join(dir, "capture.db")),
  "the write-ahead log is removed": ({ dir }) => fs.rmSync(path.join(dir, "capture.db-wal")),
  "the directory is renamed": ({ dir }) => fs.renameSync(dir, `${dir}-old`),
  "the database is replaced by an empty file": ({ dir }) => {
    fs.rmSync(path.join(dir, "capture.db"));
    fs.writeFileSync(path.join(dir, "capture.db"), "");
  },
};

describe("of four rollouts, after 0, 1, 2 and all 3 of their calls:", () => {
  test.each(Object.keys(FAILURES))("%s", async (name) => {
    const parts = await start();
    const harnesses: Harness[] = [];
    for (const healthy of [0, 1, 2, 3]) {
      const harness = await parts.open(`0-${healthy}`);
      await harness.callUntil(healthy);
      harnesses.push(harness);
    }
    await FAILURES[name]?.(parts);
    for (const harness of harnesses) await harness.callUntil(3);
    for (const healthy of [0, 1, 2, 3]) {
      const { row, report } = await parts.deliver(healthy);
      expect(row["reward"]).toBe(1);
      if (healthy === 3 && !report.masked) {
        expect(isTrainable(row)).toBe(true);
        expect(row["_ng_token_capture"]).toMatchObject({ n_calls: 3, chains: 1 });
      } else {
        expect([healthy, row["mask_sample"]]).toEqual([healthy, true]);
        expect(isTrainable(row)).toBe(false);
      }
    }
  });

  test("nothing; then a model-server thread dies, and masks also what it may have served", async () => {
    const { open, deliver, servers } = await start(10_000);
    for (const index of [0, 1]) await (await open(`0-${index}`)).callUntil(3);
    const { row } = await deliver(0);
    expect(isTrainable(row)).toBe(true);
    expect(row["_ng_token_capture"]).toMatchObject({
      n_calls: 3,
      chains: 1,
      delivered_fraction: 1,
    });
    await servers[1]?.kill();
    const { report } = await deliver(1);
    expect(report.masked).toBe(true);
    expect(report.maskReasons).toContain("WORKER_DIED");
  });
});

describe("a write that lands after its deadline", () => {
  test.each(["put", "beginCall"] as const)(
    "%s: answered, stored, and masked all the same",
    async (method) => {
      const { store } = temporaryStore();
      const { epoch } = await store.open("r1");
      const clock = new ManualClock();
      const real = storeCapture(store).sink;
      let land = () => {};
      const landing = new Promise<void>((resolve) => {
        land = resolve;
      });
      let reached = () => {};
      const held = new Promise<void>((resolve) => {
        reached = resolve;
      });
      let landed: Promise<void> = Promise.resolve();
      const late = (...args: never[]) => {
        reached();
        const write = real[method] as (...args: never[]) => Promise<void>;
        landed = landing.then(() => write(...args));
        return landed;
      };
      const capture = storeCapture(store, { [method]: late });
      const { server, base } = await startServer(
        { capture, clock },
        { limits: { putTimeoutMs: 500 } },
      );
      server.openRollout({ rolloutId: "r1", epoch, captured: true });
      const answering = postMessages(base("r1"), userRequest("hi"), keyHeaders("r1", epoch));
      await held;
      clock.advance(500);
      expect((await answering).status).toBe(200);
      land();
      await landed.catch(() => undefined);
      const ledgers = [await server.sealRollout("r1")];
      const row = { _ng_rollout_id: "r1", response: {} };
      const { masked, snapshot } = await finalizeRolloutTokenCapture(row, store, { ledgers });
      expect([masked, snapshot?.entries.length]).toEqual([true, 1]);
    },
  );
});
