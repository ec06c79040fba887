/** The methods that must be there, and the checks of a store that gives out epochs: `open` and `reset`. */
import {
  type ConformanceBench,
  type ConformanceCheck,
  type Dispatch,
  dispatchOf,
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

const has = (method: keyof Dispatch) => async (bench: ConformanceBench) =>
  (await dispatchOf(bench, method)) !== undefined;

/** A call that began before its rollout was dispatched anew. */
async function begunBeforeReset(bench: ConformanceBench) {
  await open(bench);
  const sink = await bench.sink();
  await sink.beginCall?.(bench.rolloutId, "old");
  const dispatch = await dispatchOf(bench, "reset");
  return { sink, reset: () => dispatch?.reset?.(bench.rolloutId) };
}

export const methodChecks: readonly ConformanceCheck[] = [
  {
    name: "sink.methods",
    run: async (bench) => {
      const lacks = missing(await bench.sink(), ["put", "markIncomplete", "close"]);
      expect(lacks.length === 0, `the sink has no method ${lacks.join(", ")}`);
    },
  },
  {
    name: "source.methods",
    run: async (bench) => {
      const lacks = missing(await bench.source(), ["freeze", "drop", "close"]);
      expect(lacks.length === 0, `the source has no method ${lacks.join(", ")}`);
    },
  },
];

export const dispatchChecks: readonly ConformanceCheck[] = [
  {
    name: "open.only-dispatch",
    applies: has("open"),
    run: async (bench) => {
      await record(await bench.sink(), recordOf(bench.rolloutId, "c1"));
      expect((await freeze(bench)).incomplete, "a rollout that was never opened is complete");
    },
  },
  {
    name: "reset.forgets",
    applies: has("reset"),
    run: async (bench) => {
      const { sink, reset } = await begunBeforeReset(bench);
      await record(sink, recordOf(bench.rolloutId, "c1"));
      await sink.markIncomplete(bench.rolloutId);
      await reset();
      await record(sink, recordOf(bench.rolloutId, "c2"));
      expectRecords(await freeze(bench), [recordOf(bench.rolloutId, "c2")]);
    },
  },
  {
    name: "reset.stale-put",
    applies: has("reset"),
    run: async (bench) => {
      const { sink, reset } = await begunBeforeReset(bench);
      await reset();
      const late = recordOf(bench.rolloutId, "old");
      await expectRefused(() => sink.put(late), "a put that began before the reset");
      expectRecords(await freeze(bench), []);
    },
  },
  {
    name: "reset.frozen",
    applies: has("reset"),
    run: async (bench) => {
      await frozenOne(bench);
      const dispatch = await dispatchOf(bench, "reset");
      await expectRefused(
        async () => dispatch?.reset?.(bench.rolloutId),
        "a reset of a frozen rollout that was not dropped",
      );
    },
  },
];
