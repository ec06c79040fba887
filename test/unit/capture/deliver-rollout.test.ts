import { expect, test } from "vitest";
import { deliverRollout, isTrainable } from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryStore } from "../../support/capture.js";

const rowOf = (id: string) => ({ _ng_rollout_id: id, reward: 1, response: { output: [] } });

async function recorded() {
  const { store } = temporaryStore();
  await store.open("r");
  await store.put(entryOf("r", "c1"));
  return store;
}

test("hands over a rebuilt row, then drops its records", async () => {
  const store = await recorded();
  const written: unknown[] = [];
  const { built, retired } = await deliverRollout(rowOf("r"), store, async (row) => {
    // Not dropped yet: a crash here must find the records.
    expect((await store.freeze("r")).entries).toHaveLength(1);
    written.push(structuredClone(row));
  });
  expect({ masked: built.masked, retired }).toEqual({ masked: false, retired: true });
  expect(written).toHaveLength(1);
  expect(isTrainable(written[0])).toBe(true);
  expect(await codeOf(() => store.freeze("r"))).toBe("ROLLOUT_RETIRED");
});

test("a row that could not be written keeps its records, and may be delivered again", async () => {
  const store = await recorded();
  const failing = deliverRollout(rowOf("r"), store, () => Promise.reject(new Error("disk full")));
  await expect(failing).rejects.toThrow("disk full");
  const again = await deliverRollout(rowOf("r"), store, () => undefined);
  expect(again).toMatchObject({ retired: true, built: { masked: false } });
});

test("a masked row is handed over and its records stay", async () => {
  const store = await recorded();
  await store.markIncomplete("r");
  const written: Record<string, unknown>[] = [];
  const delivered = await deliverRollout(rowOf("r"), store, (row) => void written.push(row));
  expect(delivered).toMatchObject({ retired: false, built: { masked: true } });
  expect(written[0]).toMatchObject({ mask_sample: true });
  expect((await store.freeze("r")).entries).toHaveLength(1);
});

test("a late write between freeze and drop keeps the records", async () => {
  const store = await recorded();
  const delivered = await deliverRollout(rowOf("r"), store, () =>
    store.markIncomplete("r", "late"),
  );
  expect(delivered).toMatchObject({ retired: false, built: { masked: false } });
  expect((await store.freeze("r")).incompleteReasons).toEqual(["LOST_CALL"]);
});
