import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkTaskFiles } from "../../../src/actors/agent-harness/task-files.js";

describe("checkTaskFiles", () => {
  test.each([
    "",
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/../b",
    "./a",
    ".",
    "..",
    "a/",
    "a//b",
    "a/.",
    "C:\\x",
    "C:x",
    "a\\b",
    "a\0b",
    "n".repeat(256),
    "ü".repeat(128),
    `${"d/".repeat(450)}x`,
  ])("refuses %j and names it", (key) => {
    expect(() => checkTaskFiles({ [key]: "x" })).toThrow(
      expect.objectContaining({
        code: "TASK_INVALID",
        message: expect.stringContaining(JSON.stringify(key)),
      }),
    );
  });

  test.each(["a", "a/b.txt", "...", "..a/b", "a b", ".hidden", "ü/x"])("takes %j", (key) => {
    expect(() => checkTaskFiles({ [key]: "x" })).not.toThrow();
  });

  test("refuses a file below another file", () => {
    expect(() => checkTaskFiles({ "a/b": "1", a: "2" })).toThrow(/lies below the file "a"/);
  });

  test("no files at all are fine", () => {
    expect(() => checkTaskFiles(undefined)).not.toThrow();
  });

  test("what is taken resolves strictly below the directory", () => {
    const segment = fc.constantFrom("a", "..", ".", "", "b", "C:", "\\", "...");
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 6 }), (segments) => {
        const key = segments.join("/");
        try {
          checkTaskFiles({ [key]: "" });
        } catch {
          return;
        }
        expect(path.resolve("/root/w", key)).toBe(`/root/w/${key}`);
      }),
    );
  });
});
