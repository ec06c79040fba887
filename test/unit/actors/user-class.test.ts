import { expect, test } from "vitest";
import { buildUserClass } from "../../../src/actors/user-class.js";
import type { TokenSource } from "../../../src/capture/index.js";

const module = new URL("../../fixtures/sinks.mjs", import.meta.url).href;
const build = (name: string, kwargs: unknown) =>
  buildUserClass<TokenSource & { kwargs: unknown }>(
    { specifier: `${module}:${name}`, kwargs },
    "source",
    [],
  );

test.each([
  [{ url: "http://a/" }, { url: "http://a/", retries: 3 }],
  [
    { url: "http://a/", retries: 1 },
    { url: "http://a/", retries: 1 },
  ],
])("U2 kwargs %j are what the class's schema makes of them", async (kwargs, expected) => {
  expect((await build("CheckedSource", kwargs)).kwargs).toEqual(expected);
});

test.each([
  [{ url: 5 }, /^token_id_capture\.source_kwargs: .* refuses url: /],
  [{}, /refuses url: /],
  [{ url: "http://a/", ulr: 1 }, /knows no kwarg ulr$/],
])("U1 U2 kwargs %j are refused by one error that names the key", async (kwargs, message) => {
  await expect(build("CheckedSource", kwargs)).rejects.toMatchObject({
    code: "ADAPTER_INVALID",
    message: expect.stringMatching(message),
  });
});

test("U2 a class without a schema gets its kwargs as they are", async () => {
  expect((await build("MemorySink", { anything: 1 })).kwargs).toEqual({ anything: 1 });
});
