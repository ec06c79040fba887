import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FinishedRollout, RolloutLedger } from "../../../src/actors/rollout.js";
import { Journal, slotKey } from "../../../src/actors/rollout-consumer/journal.js";
import { JsonlWriter } from "../../../src/actors/rollout-consumer/jsonl-writer.js";
import type { RolloutConsumerParts } from "../../../src/actors/rollout-consumer/parts.js";
import { RolloutConsumer } from "../../../src/actors/rollout-consumer/rollout-consumer.js";
import { isTrainable } from "../../../src/capture/index.js";
import { MemoryTokenSource } from "../../support/memory-token-source.js";
import { twoCalls } from "../../support/recorded-calls.js";
import { smallDisk } from "../../support/small-disk.js";

let directory: string;
let source: MemoryTokenSource;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
  source = new MemoryTokenSource();
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

const logger = { info() {}, warn() {} };
const journalPath = () => path.join(directory, "journal.jsonl");
const outPath = () => path.join(directory, "out", "rollouts.jsonl");
const textLines = (file: string) => fs.readFileSync(file, "utf8").split("\n").filter(Boolean);
const rows = () => textLines(outPath()).map((line) => JSON.parse(line));
const states = () => textLines(journalPath()).map((line) => JSON.parse(line).state);

function ledgerOf(rolloutId: string, fields: Partial<RolloutLedger> = {}): RolloutLedger {
  return {
    started: 2,
    recordedCallIds: [`${rolloutId}-a`, `${rolloutId}-b`],
    failed: 0,
    aborted: 0,
    captureLost: 0,
    workerIndex: 0,
    workerGeneration: 0,
    ...fields,
  };
}

const idle = {
  started: 0,
  recordedCallIds: [],
  failed: 0,
  aborted: 0,
  captureLost: 0,
  workerIndex: 1,
  workerGeneration: 0,
};

function open(parts: Partial<RolloutConsumerParts> = {}): Promise<RolloutConsumer> {
  return RolloutConsumer.open({
    journalPath: journalPath(),
    outPath: outPath(),
    source,
    servers: [{ sealRollout: (id) => ledgerOf(id) }, { sealRollout: () => idle }],
    rebuildResponse: true,
    logger,
    ...parts,
  });
}

/** A finished rollout whose two calls are recorded. */
function finished(rolloutIndex: number, fields: Partial<FinishedRollout> = {}): FinishedRollout {
  const rolloutId = fields.rolloutId ?? `0-${rolloutIndex}`;
  return {
    slot: { pass: 0, taskIndex: 0, rolloutIndex },
    attempt: 0,
    rolloutId,
    captured: true,
    task: { _ng_task_index: 0, responses_create_params: { input: "x" }, extra: "kept" },
    model: "policy",
    outcome: {
      completed: true,
      finalText: "done",
      finalMessageId: `msg-${rolloutId}-b`,
      reward: 0.5,
      failure: null,
      exitCode: 0,
      stderrTail: "",
      wallMs: 1,
    },
    ...fields,
  };
}

function record(rollout: FinishedRollout): FinishedRollout {
  for (const entry of twoCalls(rollout.rolloutId)) source.put(entry);
  return rollout;
}

describe("deliver", () => {
  test("R1 R4 a captured rollout becomes a trainable row and its evidence is dropped", async () => {
    const consumer = await open({ policy: { kind: "embedded", checkpoint_digest: "abc" } });
    const rollout = record(finished(3, { attempt: 1 }));
    const { slot, attempt, rolloutId } = rollout;
    await consumer.begin({ slot, attempt, rolloutId });
    const report = await consumer.deliver(rollout);
    await consumer.close();
    expect(report).toEqual({
      rebuilt: true,
      warnings: [],
      rolloutId: "0-3",
      slot,
      masked: false,
      maskReasons: [],
      reward: 0.5,
      calls: 2,
      chains: 1,
      deliveredFraction: 1,
      tokensCaptured: 5,
      workerCalls: [2, 0],
    });
    const [row] = rows();
    expect(row).toMatchObject({
      extra: "kept",
      _ng_task_index: 0,
      _ng_rollout_index: 3,
      _ng_rollout_id: "0-3",
      _ng_attempt: 1,
      _ng_policy: { kind: "embedded", checkpoint_digest: "abc" },
      reward: 0.5,
      response: {
        object: "response",
        model: "policy",
        usage: { input_tokens: 3, output_tokens: 5 },
      },
    });
    expect(row.response.output[1]).toMatchObject({
      prompt_token_ids: [1, 2, 3, 10, 11, 4],
      generation_token_ids: [12, 13, 14],
    });
    expect(isTrainable(row)).toBe(true);
    expect(source.state("0-3")).toBe("retired");
    expect(states()).toEqual(["started", "finished", "handed_off", "accepted"]);
  });

  test("R3 R4 a server that does not answer masks WORKER_DIED and the evidence stays", async () => {
    const dead = { sealRollout: () => Promise.reject(new Error("the actor died")) };
    const consumer = await open({ servers: [{ sealRollout: (id) => ledgerOf(id) }, dead] });
    const report = await consumer.deliver(record(finished(0)));
    await consumer.close();
    expect(report).toMatchObject({
      masked: true,
      maskReasons: ["WORKER_DIED"],
      workerCalls: [2, 0],
    });
    expect(rows()[0]).toMatchObject({ mask_sample: true, reward: 0.5 });
    expect(source.state("0-0")).toBe("frozen");
    expect(states().at(-1)).toBe("accepted");
  });

  test("a ledger that counted a call the snapshot lacks masks", async () => {
    const consumer = await open({
      servers: [
        {
          sealRollout: (id) =>
            ledgerOf(id, { recordedCallIds: [`${id}-a`, `${id}-b`, "x"], started: 3 }),
        },
      ],
    });
    const report = await consumer.deliver(record(finished(0)));
    await consumer.close();
    expect(report).toMatchObject({ masked: true, maskReasons: ["LEDGER_MISMATCH"] });
  });

  test("a failed rollout without calls is a masked row with its reason", async () => {
    const consumer = await open({ servers: [{ sealRollout: () => idle }] });
    const failure = { code: "HARNESS_ERROR", message: "no start", retryable: true } as const;
    const outcome = {
      ...finished(0).outcome,
      completed: false,
      finalText: null,
      finalMessageId: null,
      reward: null,
      failure,
    };
    const report = await consumer.deliver(finished(0, { outcome }));
    await consumer.close();
    expect(report).toMatchObject({ masked: true, error: { code: "HARNESS_ERROR" } });
    expect(rows()[0]).toMatchObject({
      mask_sample: true,
      error: { code: "HARNESS_ERROR", message: "no start" },
      _ng_token_capture: { n_calls: 0 },
    });
  });

  test.each([
    ["not captured", { captured: false }, {}],
    ["not to be rebuilt", {}, { rebuildResponse: false }],
  ])("R5 a rollout that is %s keeps its text and is never frozen", async (_, rollout, parts) => {
    const consumer = await open(parts);
    const report = await consumer.deliver(record(finished(0, rollout)));
    await consumer.close();
    expect(report).toMatchObject({ masked: false, calls: 2, tokensCaptured: 0 });
    expect(rows()).toEqual([
      {
        _ng_task_index: 0,
        responses_create_params: { input: "x" },
        extra: "kept",
        _ng_rollout_index: 0,
        _ng_rollout_id: "0-0",
        reward: 0.5,
        response: {
          object: "response",
          model: "policy",
          output: [
            {
              type: "message",
              role: "assistant",
              content: [{ type: "output_text", text: "done" }],
            },
          ],
        },
      },
    ]);
    expect(source.state("0-0")).toBe("open");
  });

  test("what an earlier row said is not passed on through the task", async () => {
    const consumer = await open({ rebuildResponse: false });
    const { task } = finished(0);
    const stale = { ...task, _ng_token_capture: { n_calls: 9 }, error: { code: "X" }, reward: 9 };
    await consumer.deliver(finished(0, { task: stale }));
    await consumer.close();
    const [row] = rows();
    expect(row).toMatchObject({ extra: "kept", reward: 0.5 });
    expect(row).not.toHaveProperty("_ng_token_capture");
    expect(row).not.toHaveProperty("error");
  });

  test("a later pass is named in its rows and is another slot", async () => {
    const slot = { pass: 1, taskIndex: 0, rolloutIndex: 0 };
    const consumer = await open();
    await consumer.deliver(record(finished(0)));
    await consumer.deliver(record(finished(0, { slot, rolloutId: "p1.0-0" })));
    await consumer.close();
    expect(rows().map((row) => row._ng_pass)).toEqual([undefined, 1]);
    const next = await open();
    expect((await next.recover()).delivered).toEqual([finished(0).slot, slot]);
    await next.close();
  });

  test("R2 a slot gets one row, whatever is delivered again", async () => {
    const consumer = await open();
    await consumer.deliver(record(finished(0)));
    const again = await consumer.deliver(record(finished(0, { attempt: 1, rolloutId: "0-0-a1" })));
    await consumer.close();
    expect(again).toMatchObject({
      masked: true,
      error: { code: "DELIVERY_ERROR", message: expect.stringContaining("0-0") },
    });
    expect(rows().map((row) => row._ng_rollout_id)).toEqual(["0-0"]);
    expect(source.state("0-0-a1")).toBe("open");
  });

  test("R1 many at once: sealing overlaps, every row is whole", async () => {
    let open_ = 0;
    let most = 0;
    const release: (() => void)[] = [];
    const sealRollout = async (id: string) => {
      open_ += 1;
      most = Math.max(most, open_);
      await new Promise<void>((resolve) => {
        release.push(resolve);
        if (release.length === 5) for (const each of release) each();
      });
      open_ -= 1;
      return ledgerOf(id);
    };
    const consumer = await open({ servers: [{ sealRollout }] });
    await Promise.all([0, 1, 2, 3, 4].map((index) => consumer.deliver(record(finished(index)))));
    await consumer.close();
    expect(most).toBe(5);
    expect(rows().every(isTrainable)).toBe(true);
  });
});

describe("a full disk", () => {
  const parts = (): RolloutConsumerParts => ({
    journalPath: journalPath(),
    outPath: outPath(),
    source,
    servers: [{ sealRollout: (id) => ledgerOf(id) }],
    rebuildResponse: true,
    logger,
  });
  const journalOn = (room: number) => new Journal(new JsonlWriter("journal", smallDisk(room), 0));
  const out = () => JsonlWriter.open(outPath(), () => {});

  test("R3 R4 a journal that takes nothing masks JOURNAL_FAILED; the row and the evidence stay", async () => {
    const consumer = new RolloutConsumer(parts(), journalOn(0), await out(), new Map());
    const rollout = record(finished(0));
    await expect(
      consumer.begin({ slot: rollout.slot, attempt: 0, rolloutId: "0-0" }),
    ).rejects.toMatchObject({
      code: "APPEND_FAILED",
    });
    expect(await consumer.deliver(rollout)).toMatchObject({
      masked: true,
      maskReasons: ["JOURNAL_FAILED"],
    });
    await consumer.close();
    expect(rows()).toMatchObject([{ mask_sample: true, reward: 0.5 }]);
    expect(source.state("0-0")).toBe("frozen");
  });

  test("R4 a row that cannot be written is a DELIVERY_ERROR, and its slot can be delivered later", async () => {
    const disk = smallDisk(100);
    const journal = await Journal.open(journalPath());
    const consumer = new RolloutConsumer(
      parts(),
      journal,
      new JsonlWriter("out", disk, 0),
      new Map(),
    );
    expect(await consumer.deliver(record(finished(0)))).toMatchObject({
      masked: true,
      error: { code: "DELIVERY_ERROR", message: expect.stringContaining("no space left") },
    });
    await consumer.close();
    expect(disk.bytes.length).toBe(0);
    expect(source.state("0-0")).toBe("frozen");
    const next = await open();
    expect((await next.recover()).redelivered).toMatchObject([{ rolloutId: "0-0", masked: false }]);
    await next.close();
    expect(rows().every(isTrainable)).toBe(true);
  });
});

describe("recover", () => {
  test("a bad line in the middle of the journal is refused", async () => {
    fs.writeFileSync(journalPath(), '{"state":"what"}\n{"state":"started"}\n');
    await expect(open()).rejects.toMatchObject({
      code: "FILE_CORRUPT",
      message: expect.stringContaining("line 1"),
    });
  });

  test("R4 a row whose rollout changed after it was frozen keeps its evidence", async () => {
    const consumer = await open();
    await consumer.deliver(record(finished(0)));
    await consumer.close();
    // The crash: everything after the row is gone, and a late write arrived.
    fs.writeFileSync(journalPath(), `${textLines(journalPath())[0]}\n`);
    source = new MemoryTokenSource();
    record(finished(0));
    await source.freeze("0-0");
    source.put(twoCalls("0-0")[0]!);
    const next = await open();
    await next.recover();
    await next.close();
    expect(source.state("0-0")).toBe("frozen");
  });

  test("R1 R2 after a crash at any byte, every slot has exactly one trainable row", async () => {
    const consumer = await open();
    for (const index of [0, 1, 2]) {
      const rollout = record(finished(index));
      await consumer.begin({ slot: rollout.slot, attempt: 0, rolloutId: rollout.rolloutId });
      await consumer.deliver(rollout);
    }
    await consumer.close();
    const events = history(textLines(journalPath()), textLines(outPath()));
    const total = events.reduce((sum, event) => sum + event.bytes.length, 0);

    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: total }), async (cut) => {
        const crash = await crashAt(events, cut);
        fs.writeFileSync(journalPath(), crash.journal);
        fs.writeFileSync(outPath(), crash.out);
        const servers = [{ sealRollout: (id: string) => ledgerOf(id) }];
        const next = await open({ servers });
        const { delivered, attempts, redelivered } = await next.recover();
        expect(redelivered.filter((report) => report.masked)).toEqual([]);
        const have = new Set(delivered.map(slotKey));
        expect(have.size).toBe(delivered.length);
        for (const index of [0, 1, 2]) {
          const { slot } = finished(index);
          if (have.has(slotKey(slot))) continue;
          const last = attempts.find((each) => slotKey(each.slot) === slotKey(slot))?.attempt ?? -1;
          const rolloutId = `0-${index}-a${last + 1}`;
          await next.deliver(record(finished(index, { attempt: last + 1, rolloutId })));
        }
        await next.close();
        expect(
          rows()
            .map((row) => row._ng_rollout_index)
            .sort(),
        ).toEqual([0, 1, 2]);
        expect(rows().every(isTrainable)).toBe(true);
        for (const row of rows()) expect(source.state(row._ng_rollout_id)).toBe("retired");

        const again = await open({ servers });
        expect(await again.recover()).toMatchObject({ redelivered: [], delivered: { length: 3 } });
        await again.close();
      }),
      { numRuns: Number(process.env["CRASH_RUNS"] ?? 60) },
    );
  }, 600_000);
});

interface Event {
  readonly file: "journal" | "out" | "store";
  readonly bytes: Buffer;
  readonly effect?: () => Promise<unknown>;
}

/** What a run wrote and did, in order. */
function history(journal: readonly string[], out: readonly string[]): Event[] {
  const nothing = Buffer.alloc(0);
  return journal.flatMap((line): Event[] => {
    const record = JSON.parse(line);
    const events: Event[] = [{ file: "journal", bytes: Buffer.from(`${line}\n`) }];
    if (record.state === "finished") {
      const id = record.finished.rolloutId;
      const row = out.find((each) => JSON.parse(each)._ng_rollout_id === id);
      events.push({ file: "store", bytes: nothing, effect: () => source.freeze(id) });
      events.push({ file: "out", bytes: Buffer.from(`${row}\n`) });
    }
    if (record.state === "handed_off") {
      const drop = async () => source.drop(record.rolloutId, await source.freeze(record.rolloutId));
      events.push({ file: "store", bytes: nothing, effect: drop });
    }
    return events;
  });
}

/** Both files and the store as they are when the process dies after `cut` bytes. */
async function crashAt(
  events: readonly Event[],
  cut: number,
): Promise<{ journal: Buffer; out: Buffer }> {
  source = new MemoryTokenSource();
  for (const index of [0, 1, 2]) record(finished(index));
  const files: Record<"journal" | "out", Buffer[]> = { journal: [], out: [] };
  let left = cut;
  for (const { file, bytes, effect } of events) {
    if (file === "store") await effect?.();
    else files[file].push(bytes.subarray(0, left));
    left -= bytes.length;
    if (left < 0) break;
  }
  return { journal: Buffer.concat(files.journal), out: Buffer.concat(files.out) };
}
