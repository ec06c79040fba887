/** The checks of a sink, simplest first: a later one relies on those before it. */
import {
  type ConformanceBench,
  type ConformanceCheck,
  expect,
  expectRecords,
  expectRefused,
  freeze,
  frozenOne,
  missing,
  open,
  record,
  recordOf,
} from "./conformance-records.js";

const TOGETHER = 20;

async function hasMethod(bench: ConformanceBench, name: string): Promise<boolean> {
  return missing(await bench.sink(), [name]).length === 0;
}

const puts: ConformanceCheck[] = [
  {
    name: "put.visible-at-once",
    run: async (bench) => {
      await open(bench);
      // The sink stays open: what it holds back until it is closed is not durable.
      await record(await bench.sink(), recordOf(bench.rolloutId, "c1"));
      const { entries, incomplete } = await freeze(bench);
      expect(entries.length === 1, `one record was acknowledged, ${entries.length} can be read`);
      expect(!incomplete, "the snapshot is incomplete");
    },
  },
  {
    name: "put.exact",
    run: async (bench) => {
      await open(bench);
      const sink = await bench.sink();
      const bare = recordOf(bench.rolloutId, "empty", {
        generation_token_ids: new Int32Array(),
        policy_version_spans: [],
        generation_log_probs: new Float64Array(),
        output_items: [],
        token_item_index: null,
      });
      const entries = [recordOf(bench.rolloutId, "c1"), bare];
      for (const entry of entries) await record(sink, entry);
      expectRecords(await freeze(bench), entries);
    },
  },
  {
    name: "put.rollouts-apart",
    run: async (bench) => {
      const ids = ["", ".1", "-1", "1"].map((end) => `${bench.rolloutId}${end}`);
      const sink = await bench.sink();
      for (const id of ids) await open(bench, id);
      for (const id of ids) await record(sink, recordOf(id, "c1"));
      for (const id of ids) expectRecords(await freeze(bench, id), [recordOf(id, "c1")]);
    },
  },
  {
    name: "put.same-again",
    run: async (bench) => {
      await open(bench);
      const entry = recordOf(bench.rolloutId, "c1");
      await record(await bench.sink(), entry);
      await (await bench.sink()).put({ ...entry, created_at: entry.created_at + 60 });
      expectRecords(await freeze(bench), [entry]);
    },
  },
  {
    name: "put.conflict",
    run: async (bench) => {
      await open(bench);
      const sink = await bench.sink();
      await record(sink, recordOf(bench.rolloutId, "c1"));
      const other = recordOf(bench.rolloutId, "c1", {
        generation_token_ids: Int32Array.of(7, 0, 9),
      });
      await expectRefused(
        async () => (await bench.sink()).put(other),
        "another payload of a call id",
      );
      const { incomplete } = await freeze(bench);
      expect(incomplete, "the rollout of a conflict is complete");
    },
  },
  {
    name: "put.two-workers",
    run: async (bench) => {
      await open(bench);
      const sinks = [await bench.sink(), await bench.sink()];
      const entries = Array.from({ length: TOGETHER }, (_, n) =>
        recordOf(bench.rolloutId, `c${n}`),
      );
      await Promise.all(
        sinks.flatMap((sink, of) =>
          entries.filter((_, n) => n % 2 === of).map((entry) => record(sink, entry)),
        ),
      );
      expectRecords(await freeze(bench), entries);
    },
  },
  {
    name: "put.one-winner",
    run: async (bench) => {
      await open(bench);
      const sinks = [await bench.sink(), await bench.sink()];
      const settled = await Promise.allSettled(
        sinks.map((sink, n) =>
          sink.put(
            recordOf(bench.rolloutId, "c1", { generation_token_ids: Int32Array.of(7, 0, n) }),
          ),
        ),
      );
      const won = settled.filter(({ status }) => status === "fulfilled").length;
      expect(won === 1, `of two payloads put at once under one id ${won} were accepted`);
      expect((await freeze(bench)).incomplete, "the rollout of a conflict is complete");
    },
  },
];

const marks: ConformanceCheck[] = [
  {
    name: "mark.incomplete",
    run: async (bench) => {
      for (const call of [undefined, "lost"]) {
        const id = `${bench.rolloutId}-${call ?? "none"}`;
        await open(bench, id);
        const sink = await bench.sink();
        await sink.markIncomplete(id, call);
        await record(sink, recordOf(id, "c1"));
        const { incomplete } = await freeze(bench, id);
        expect(
          incomplete,
          `a rollout marked ${call === undefined ? "without" : "with"} a call is complete`,
        );
      }
    },
  },
  {
    name: "mark.after-freeze",
    run: async (bench) => {
      const { sink, snapshot } = await frozenOne(bench);
      await sink.markIncomplete(bench.rolloutId, "late");
      const dropped = await (await bench.source()).drop(bench.rolloutId, snapshot);
      expect(!dropped, "a snapshot from before a mark was dropped");
      expect((await freeze(bench)).incomplete, "a mark after freeze is not in the next snapshot");
    },
  },
];

const intents: ConformanceCheck[] = [
  {
    name: "intent.dangling",
    applies: (bench) => hasMethod(bench, "beginCall"),
    run: async (bench) => {
      await open(bench);
      await (await bench.sink()).beginCall?.(bench.rolloutId, "c1");
      expect((await freeze(bench)).incomplete, "a call that began and never ended is no hole");
    },
  },
  {
    name: "intent.ended",
    applies: async (bench) => (await hasMethod(bench, "beginCall")) && hasMethod(bench, "endCall"),
    run: async (bench) => {
      await open(bench);
      const entry = recordOf(bench.rolloutId, "c1");
      const sink = await bench.sink();
      await record(sink, entry);
      for (const outcome of ["failed", "aborted"] as const) {
        await sink.beginCall?.(bench.rolloutId, outcome);
        await sink.endCall?.(bench.rolloutId, outcome, outcome);
      }
      const snapshot = await freeze(bench);
      expectRecords(snapshot, [entry]);
      const { failedCalls = 0, abortedCalls = 0 } = snapshot;
      expect(
        failedCalls === 1 && abortedCalls === 1,
        `one failed and one aborted call are counted as ${failedCalls} and ${abortedCalls}`,
      );
    },
  },
];

export const sinkChecks: readonly ConformanceCheck[] = [...puts, ...marks, ...intents];
