/** Lines of a file, and every reader of rows and records that is built upon them. */
import { constants } from "node:buffer";
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JsonlWriter } from "../../../src/actors/rollout-consumer/jsonl-writer.js";
import {
  type FileLine,
  fileLines,
  lineTooLong,
  rebuildEntriesFile,
  tokenEntryToJson,
} from "../../../src/capture/index.js";
import { exportRollouts } from "../../../src/orchestrator/export/export-rollouts.js";
import { readJsonLines } from "../../../src/orchestrator/jsonl.js";
import { entryOf, temporaryDirectory } from "../../support/capture.js";

/** A file that gives so many bytes at a time. */
function slowFile(bytes: Buffer, step: number): Parameters<typeof fileLines>[0] {
  const read = (target: Buffer, offset: number, length: number, position: number) => {
    const end = Math.min(bytes.length, position + Math.min(step, length));
    return Promise.resolve({ bytesRead: bytes.copy(target, offset, position, end) });
  };
  return { read } as unknown as Parameters<typeof fileLines>[0];
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

/** Every character that some reader of lines splits at, in JSON text that does not escape it. */
const odd = fc.constantFrom("\u2028", "\u2029", "\u0085", "\u007f", "\r", "ü", "🦩", "a", "");
const text = fc.array(odd).map((parts) => parts.join(""));

test("W1 lines come back as they were written, whatever is in them and however they are read", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(text), fc.integer({ min: 1, max: 9 }), async (texts, step) => {
      const lines = texts.map((value) => JSON.stringify({ value }));
      const found = await all(fileLines(slowFile(Buffer.from(`${lines.join("\n")}\n`), step)));
      expect(found.map((line) => line.text)).toEqual(lines.length === 0 ? [""] : lines);
      expect(found.every((line) => line.ended)).toBe(true);
    }),
  );
});

test("W1 W2 a line beyond the limit is told by its size, those around it are read", async () => {
  const sizes = fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1 });
  await fc.assert(
    fc.asyncProperty(
      sizes,
      fc.integer({ min: 1, max: 9 }),
      fc.boolean(),
      async (made, step, end) => {
        const lines = made.map((size) => "x".repeat(size));
        const bytes = Buffer.from(lines.join("\n") + (end ? "\n" : ""));
        const found = await all(fileLines(slowFile(bytes, step), 10));
        const ended = (index: number) => end || index < lines.length - 1;
        const expected = lines.map(
          (line, index): FileLine => ({
            number: index + 1,
            text: line.length > 10 ? null : line,
            bytes: line.length + (ended(index) ? 1 : 0),
            ended: ended(index),
          }),
        );
        expect(found).toEqual(expected.filter((line) => line.bytes > 0));
      },
    ),
  );
});

test("W2 the limit is what a string of this Node holds", () => {
  const line = { number: 1, text: null, bytes: 6e8, ended: true };
  expect(lineTooLong(line)).toContain(`600000000 bytes; at most ${constants.MAX_STRING_LENGTH} `);
});

describe("every reader", () => {
  const file = (...lines: readonly unknown[]) => {
    const name = path.join(temporaryDirectory(), "lines.jsonl");
    fs.writeFileSync(name, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    return name;
  };
  const record = { ...tokenEntryToJson(entryOf("r", "c1")), model: "a\u2028b\u2029c" };

  test("W1 takes text with separators that JSON does not escape", async () => {
    const rows = [{ _ng_rollout_id: "a\u2028b", mask_sample: true }, { _ng_rollout_id: "c" }];
    const name = file(...rows);
    expect(await all(readJsonLines(name, "--rollouts"))).toEqual(
      rows.map((value, index) => ({ line: index + 1, value })),
    );
    const out = path.join(temporaryDirectory(), "out.jsonl");
    const exported = await exportRollouts({ rollouts: name, format: "gym", out });
    expect(exported).toMatchObject({ rows: 2 });
    const builds = await all(rebuildEntriesFile(file(record)));
    expect(builds).toMatchObject([{ rebuilt_response: { model: record.model } }]);
    const lines: unknown[] = [];
    await (await JsonlWriter.open(name, (value) => lines.push(value))).close();
    expect(lines).toEqual(rows);
  });

  test.each([
    ["verify, export and explain", (name: string) => all(readJsonLines(name, "--rollouts", 1000))],
    ["rebuild", (name: string) => all(rebuildEntriesFile(name, {}, 1000))],
    ["resume", (name: string) => JsonlWriter.open(name, () => undefined, 1000)],
  ])("W2 of %s names a line that it cannot hold, its size and the limit", async (_, read) => {
    const name = file(record, { ...record, model: "x".repeat(2000) }, record);
    const before = fs.readFileSync(name);
    const bytes = before.indexOf("\n", before.indexOf("\n") + 1) - before.indexOf("\n");
    await expect(read(name)).rejects.toThrow(
      new RegExp(`line 2\\b.* has ${bytes} bytes; at most 1000 can be read as one line`),
    );
    expect(fs.readFileSync(name)).toEqual(before);
  });

  test("W2 a torn tail of any length is cut on resume, as any torn tail is", async () => {
    const name = file({ a: 1 });
    fs.appendFileSync(name, "x".repeat(5000));
    const writer = await JsonlWriter.open(name, () => undefined, 1000);
    await writer.close();
    expect(writer.cutBytes).toBe(5000);
    expect(fs.readFileSync(name, "utf8")).toBe('{"a":1}\n');
  });
});
