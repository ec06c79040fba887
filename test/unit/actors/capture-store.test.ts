import { join } from "node:path";
import { expect, test } from "vitest";
import {
  CaptureStore,
  captureStore,
} from "../../../src/actors/capture-store/capture-store.actor.js";
import { BatchedWriter, StoreSink } from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryDirectory } from "../../support/capture.js";

test("a rollout goes through the actor from open to drop, and another actor finds its tombstone", async () => {
  const dir = temporaryDirectory();
  const actor = new CaptureStore({ dir });
  const sink = new StoreSink(new BatchedWriter(actor));
  await actor.open("r");
  await sink.beginCall("r", "c1");
  const context = { context_digest: "ctx", context_length: 1, fingerprint_version: 1 };
  await sink.put(entryOf("r", "c1", { ...context, served_text: "done" }));
  const [node] = await actor.candidates("r", { kind: "text", text: "done" });
  expect(node?.modelCallId).toBe("c1");
  expect(await actor.cumulativeIds("r", "c1")).toHaveLength(7);
  const snapshot = await actor.freeze("r");
  expect(snapshot).toMatchObject({ incomplete: false });
  expect(await actor.drop("r", snapshot)).toBe(true);
  await actor.close();

  const next = new CaptureStore({ dir });
  expect(await codeOf(() => next.open("r"))).toBe("ROLLOUT_EXISTS");
  await next.reset("r");
  expect(await next.abandonOpen()).toEqual(["r"]);
  await next.close();
});

test.each([
  [undefined, "dir is undefined"],
  [{}, "dir is undefined"],
  [{ dir: "" }, "it must be the path of a directory"],
  [{ dir: "/tmp/x", allowNetworkFs: "yes" }, "allowNetworkFs is yes; it must be true or false"],
])("options %j are refused with a message that names the option", (options, message) => {
  expect(() => captureStore.options?.parse(options)).toThrow(message);
});

test("options get their defaults", () => {
  const dir = join("a", "b");
  expect(captureStore.options?.parse({ dir })).toEqual({ dir, allowNetworkFs: false });
});
