import { expect, test } from "vitest";
import { openCapture } from "../../../../src/actors/model-server/capture-client.js";

const sinks = new URL("../../../fixtures/sinks.mjs", import.meta.url).href;
const module = (name: string, more: object = {}) => ({
  kind: "module" as const,
  sink: { specifier: `${sinks}:${name}`, kwargs: { bucket: "b" } },
  ...more,
});

test("capture that is off has no client", async () => {
  expect(await openCapture({ kind: "off" })).toBeNull();
});

test("a user's sink and lineage are built with their kwargs and closed", async () => {
  const client = await openCapture(
    module("MemorySink", { lineage: { specifier: `${sinks}:MemoryLineage`, kwargs: {} } }),
  );
  expect(client?.sink).toMatchObject({ kwargs: { bucket: "b" } });
  expect(await client?.lineage?.candidates("r", { kind: "text", text: "" })).toEqual([]);
  await client?.close();
  await client?.close();
  expect(client?.sink).toMatchObject({ closed: true });
  expect((await openCapture(module("MemorySink")))?.lineage).toBeNull();
});

test.each([
  ["ForgetfulSink", /has no method markIncomplete/],
  ["RefusingSink", /could not be built: no bucket/],
  ["Missing", /has no class Missing/],
])("D1. %s is refused", async (name, message) => {
  const opening = openCapture(module(name));
  await expect(opening).rejects.toMatchObject({ code: "ADAPTER_INVALID" });
  await expect(opening).rejects.toThrow(message);
});

test("D1. a module that does not load and a specifier without an export are refused", async () => {
  const open = (specifier: string) =>
    openCapture({ kind: "module", sink: { specifier, kwargs: {} } });
  await expect(open("file:///nowhere.mjs:Sink")).rejects.toThrow(/does not load/);
  await expect(open("nowhere")).rejects.toThrow(/module:Export/);
});
