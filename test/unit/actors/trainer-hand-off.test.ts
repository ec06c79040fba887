/** The consumer without a file: rows go to a trainer, which accepts or rejects them. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { FinishedRollout, RolloutSlot } from "../../../src/actors/rollout.js";
import { RolloutConsumer } from "../../../src/actors/rollout-consumer/rollout-consumer.js";
import { isTrainable } from "../../../src/capture/index.js";
import { MemoryTokenSource } from "../../support/memory-token-source.js";
import { twoCalls } from "../../support/recorded-calls.js";

let directory: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

const open = (source: MemoryTokenSource, journalPath = path.join(directory, "journal.jsonl")) =>
  RolloutConsumer.open({
    journalPath,
    source,
    servers: [
      {
        sealRollout: (id) => ({
          started: 2,
          recordedCallIds: [`${id}-a`, `${id}-b`],
          failed: 0,
          aborted: 0,
          captureLost: 0,
          workerIndex: 0,
          workerGeneration: 0,
        }),
      },
    ],
    rebuildResponse: true,
    logger: { info() {}, warn() {} },
  });

function finished(slot: RolloutSlot, attempt = 0): FinishedRollout {
  const base = `p${slot.pass}.${slot.taskIndex}-${slot.rolloutIndex}`;
  const rolloutId = attempt === 0 ? base : `${base}-a${attempt}`;
  return {
    slot,
    attempt,
    rolloutId,
    captured: true,
    task: { _ng_task_index: slot.taskIndex, responses_create_params: { input: "x" } },
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
  };
}

const slotOf = (rolloutIndex: number, pass = 1) => ({ pass, taskIndex: 0, rolloutIndex });

function record(source: MemoryTokenSource, rollout: FinishedRollout): FinishedRollout {
  for (const entry of twoCalls(rollout.rolloutId)) source.put(entry);
  return rollout;
}

test("R1 R4 the row comes back, and its evidence is dropped when it is accepted, not before", async () => {
  const source = new MemoryTokenSource();
  const consumer = await open(source);
  expect(await consumer.beginPass({ digest: "d", slots: 2 })).toBe(1);
  const { row, rolloutId } = await consumer.deliver(record(source, finished(slotOf(0))));
  expect(isTrainable(row)).toBe(true);
  expect(source.state(rolloutId)).toBe("frozen");
  await consumer.accept([rolloutId]);
  expect(source.state(rolloutId)).toBe("retired");
  await expect(consumer.accept([rolloutId])).rejects.toMatchObject({ code: "NOT_HELD" });

  const rejected = await consumer.deliver(record(source, finished(slotOf(1))));
  await consumer.reject([rejected.rolloutId], "too easy");
  expect(source.state(rejected.rolloutId)).toBe("frozen");
  await consumer.close();
});

test("R2 a slot that is held or settled is not delivered again", async () => {
  const source = new MemoryTokenSource();
  const consumer = await open(source);
  await consumer.beginPass({ digest: "d", slots: 2 });
  const first = await consumer.deliver(record(source, finished(slotOf(0))));
  const again = () => consumer.deliver(record(source, finished(slotOf(0), 1)));
  expect(await again()).toMatchObject({ masked: true, error: { code: "DELIVERY_ERROR" } });
  await consumer.accept([first.rolloutId]);
  const late = await again();
  expect(late).toMatchObject({ error: { code: "DELIVERY_ERROR" } });
  expect(late).not.toHaveProperty("row");
  await consumer.close();
});

test("a row names the weights of the versions that sampled it", async () => {
  const source = new MemoryTokenSource();
  const consumer = await RolloutConsumer.open({
    journalPath: path.join(directory, "journal.jsonl"),
    source,
    servers: [],
    rebuildResponse: true,
    policy: { kind: "embedded", checkpoint_digest: "zero" },
    logger: { info() {}, warn() {} },
  });
  consumer.policyUpdated(1, "one");
  consumer.policyUpdated(2, "two");
  const policyOf = async (index: number, start: number, end: number) => {
    const rollout = finished(slotOf(index));
    for (const entry of twoCalls(rollout.rolloutId))
      source.put({ ...entry, policy_version_start: start, policy_version_end: end });
    const { row } = await consumer.deliver(rollout);
    return row?.["_ng_policy"];
  };
  await consumer.beginPass({ digest: "d", slots: 9 });
  expect(await policyOf(0, 0, 0)).toEqual({ kind: "embedded", checkpoint_digest: "zero" });
  expect(await policyOf(1, 2, 2)).toEqual({ kind: "embedded", checkpoint_digest: "two" });
  expect(await policyOf(2, 0, 1)).toEqual({
    kind: "embedded",
    checkpoint_digests: { 0: "zero", 1: "one" },
  });
  expect(await policyOf(3, 7, 7)).toEqual({ kind: "embedded" });
  await consumer.close();
});

/** What a death may do to the end of the file: a line that was begun, or a note that nobody waited for is missing. */
function damageTail(journalPath: string, draw: number): void {
  const lines = fs.readFileSync(journalPath, "utf8").trimEnd().split("\n");
  if (draw > 130) fs.appendFileSync(journalPath, '{"state":"fin');
  else if (draw > 60 && lines.at(-1)?.startsWith('{"state":"accepted"'))
    fs.writeFileSync(
      journalPath,
      lines
        .slice(0, -1)
        .map((line) => `${line}\n`)
        .join(""),
    );
}

type Step = "begin" | "deliver" | "settle";
const SLOTS = 3;

test("H1 H2 after deaths between any two steps, also with a torn line, every slot has one verdict and no row is lost", async () => {
  let run = 0;
  const verdicts = fc.constantFrom<"accept" | "reject">("accept", "reject");
  await fc.assert(
    fc.asyncProperty(
      fc.array(verdicts, { minLength: SLOTS, maxLength: SLOTS }),
      fc.infiniteStream(fc.boolean()),
      fc.infiniteStream(fc.nat({ max: 200 })),
      async (wanted, dies, tears) => {
        const journalPath = path.join(directory, `journal-${run++}.jsonl`);
        const source = new MemoryTokenSource();
        const rows = new Map<number, string>();
        const settled = new Map<number, string[]>();
        let consumer = await open(source, journalPath);
        await consumer.beginPass({ digest: "d", slots: SLOTS });
        let deaths = 0;

        const start = async () => {
          await consumer.close();
          damageTail(journalPath, tears.next().value);
          consumer = await open(source, journalPath);
          return consumer.recover();
        };
        const mayDie = async (): Promise<boolean> => {
          if (deaths >= 6 || dies.next().value) return false;
          deaths++;
          return true;
        };

        for (let index = 0; index < SLOTS; index++) {
          const slot = slotOf(index);
          let step: Step = "begin";
          let attempt = 0;
          let held = "";
          while (settled.get(index) === undefined || step !== "settle") {
            if (step === "begin") {
              const { rolloutId } = finished(slot, attempt);
              await consumer.begin({ slot, attempt, rolloutId });
              step = "deliver";
            } else if (step === "deliver") {
              const report = await consumer.deliver(record(source, finished(slot, attempt)));
              rows.set(index, JSON.stringify(report.row));
              held = report.rolloutId;
              step = "settle";
            } else {
              const verdict = wanted[index]!;
              if (verdict === "accept") await consumer.accept([held]);
              else await consumer.reject([held], "no");
              settled.set(index, [...(settled.get(index) ?? []), verdict]);
            }
            if (!(await mayDie())) continue;
            const recovery = await start();
            const pending = recovery.pending.find((one) => one.slot.rolloutIndex === index);
            expect(pending !== undefined).toBe(rows.has(index) && !settled.has(index));
            expect(recovery.pending).toHaveLength(pending === undefined ? 0 : 1);
            if (pending !== undefined) {
              const report = await consumer.redeliver(pending.slot);
              expect(JSON.stringify(report.row)).toBe(rows.get(index));
              held = report.rolloutId;
            } else if (!settled.has(index)) {
              const last = recovery.attempts.find((one) => one.slot.rolloutIndex === index);
              attempt = (last?.attempt ?? -1) + 1;
              step = "begin";
            }
          }
        }
        const { passes } = await start();
        expect(passes).toEqual([]);
        for (let index = 0; index < SLOTS; index++) {
          expect(settled.get(index)).toEqual([wanted[index]]);
          const { _ng_rollout_id: id } = JSON.parse(rows.get(index)!);
          expect(source.state(id)).toBe(wanted[index] === "accept" ? "retired" : "frozen");
        }
        await consumer.close();
      },
    ),
    { numRuns: Number(process.env["CRASH_RUNS"] ?? 60) },
  );
}, 120_000);
