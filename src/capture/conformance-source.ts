/** The checks of a source. */
import {
  type ConformanceCheck,
  expect,
  expectRecords,
  expectRefused,
  freeze,
  frozenOne,
  recordOf,
} from "./conformance-records.js";

const freezes: ConformanceCheck[] = [
  {
    name: "freeze.idempotent",
    run: async (bench) => {
      const { snapshot } = await frozenOne(bench);
      const again = await freeze(bench);
      expect(
        again.snapshotId === snapshot.snapshotId && again.version === snapshot.version,
        "a second freeze of an unchanged rollout is another snapshot",
      );
      expectRecords(again, [recordOf(bench.rolloutId, "c1")]);
    },
  },
  { name: "freeze.unseen", run: async (bench) => expectRecords(await freeze(bench), []) },
  {
    name: "freeze.late-put",
    run: async (bench) => {
      const { sink, snapshot } = await frozenOne(bench);
      await expectRefused(() => sink.put(recordOf(bench.rolloutId, "late")), "a put after freeze");
      const source = await bench.source();
      expect(
        !(await source.drop(bench.rolloutId, snapshot)),
        "a snapshot was dropped over a late put",
      );
      const next = await freeze(bench);
      expect(next.incomplete, "a rollout with a late put is complete");
      expect(next.version !== snapshot.version, "a late put did not move the version");
    },
  },
];

const drops: ConformanceCheck[] = [
  {
    name: "drop.exact",
    run: async (bench) => {
      const { snapshot } = await frozenOne(bench);
      const source = await bench.source();
      const { snapshotId, version } = snapshot;
      const others = [
        { snapshotId: `${snapshotId}x`, version },
        { snapshotId, version: version + 1 },
      ];
      for (const other of others)
        expect(!(await source.drop(bench.rolloutId, other)), "another snapshot was dropped");
      const dropped = await source.drop(bench.rolloutId, { snapshotId, version });
      expect(dropped === true, "the exact snapshot was not dropped");
    },
  },
  {
    name: "drop.tombstone",
    run: async (bench) => {
      const { sink, snapshot } = await frozenOne(bench);
      await (await bench.source()).drop(bench.rolloutId, snapshot);
      await expectRefused(() => sink.put(recordOf(bench.rolloutId, "late")), "a put after drop");
      await expectRefused(
        async () => (await bench.sink()).put(recordOf(bench.rolloutId, "later")),
        "a put after drop, by a client that never saw the rollout,",
      );
    },
  },
];

const closes: ConformanceCheck[] = [
  {
    name: "close.idempotent",
    run: async (bench) => {
      for (const client of [await bench.sink(), await bench.source()]) {
        await client.close();
        await client.close();
      }
      const { sink, snapshot } = await frozenOne(bench);
      await sink.close();
      expectRecords(snapshot, [recordOf(bench.rolloutId, "c1")]);
    },
  },
];

export const sourceChecks: readonly ConformanceCheck[] = [...freezes, ...drops, ...closes];
