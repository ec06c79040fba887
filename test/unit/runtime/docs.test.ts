/** The guide names every error code and every option, and none that is not there. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const guide = read("docs/runtime.md");

it("docs/runtime.md lists exactly the runtime's error codes", () => {
  const union = /export type ActorErrorCode =([\s\S]*?);/.exec(read("src/runtime/errors.ts"))?.[1];
  const codes = [...(union ?? "").matchAll(/\| "([A-Z_]+)"/g)].map(([, code]) => code);
  const listed = [...guide.matchAll(/^\| `([A-Z_]+)` +\|/gm)].map(([, code]) => code);
  expect(codes.length).toBeGreaterThan(8);
  expect(listed.sort()).toEqual(codes.sort());
});

it("docs/runtime.md names every spawn option that limits or restarts an actor", () => {
  const options = read("src/runtime/options.ts");
  const body = /export interface SpawnOptions \{([\s\S]*?)\n\}/.exec(options)?.[1] ?? "";
  const names = [...body.matchAll(/readonly (\w+)\?:/g)].map(([, name]) => name);
  expect(names).toContain("maxRestarts");
  const absent = names.filter((name) => name !== undefined && !guide.includes(name));
  expect(absent).toEqual(["getIfExists"]);
});
