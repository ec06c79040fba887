import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { JsonlWriter } from "../../../src/actors/rollout-consumer/jsonl-writer.js";
import { smallDisk } from "../../support/small-disk.js";

let directory: string;
let file: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
  file = path.join(directory, "deep", "x.jsonl");
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

async function open(): Promise<{ writer: JsonlWriter; lines: unknown[] }> {
  const lines: unknown[] = [];
  const writer = await JsonlWriter.open(file, (value) => lines.push(value));
  return { writer, lines };
}

async function readBack(): Promise<unknown[]> {
  const { writer, lines } = await open();
  await writer.close();
  return lines;
}

describe("JsonlWriter", () => {
  test("J1 lines come back in the order of the calls", async () => {
    const { writer } = await open();
    const values = Array.from({ length: 20 }, (_, index) => ({ index, text: "ü\n".repeat(index) }));
    await Promise.all(values.map((value) => writer.append(value)));
    await writer.close();
    expect(await readBack()).toEqual(values);
  });

  test("J2 a torn tail of any length is cut, whole lines stay", async () => {
    const lines = ['{"a":"ü"}\n', '{"b":2}\n', '{"c":[1,2,3]}\n'];
    const bytes = Buffer.from(lines.join(""));
    const ends = [0];
    for (const line of lines) ends.push(ends.at(-1)! + Buffer.byteLength(line));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: bytes.length }), async (length) => {
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, bytes.subarray(0, length));
        const opened = await open();
        await opened.writer.append({ last: true });
        await opened.writer.close();
        const whole = ends.filter((end) => end <= length).length - 1;
        expect(opened.writer.cutBytes).toBe(length - ends[whole]!);
        expect(fs.readFileSync(file, "utf8")).toBe(
          `${lines.slice(0, whole).join("")}{"last":true}\n`,
        );
      }),
    );
  });

  test("J2 a last line that ends but does not parse is cut", async () => {
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, '{"a":1}\n\0\0\0\0\n');
    const { writer, lines } = await open();
    expect(lines).toEqual([{ a: 1 }]);
    expect(writer.cutBytes).toBe(5);
    await writer.close();
    expect(fs.readFileSync(file, "utf8")).toBe('{"a":1}\n');
  });

  test("J2 a bad line in the middle is an error that names it, and nothing is cut", async () => {
    const content = '{"a":1}\n{"b":\n{"c":1}\n';
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, content);
    await expect(open()).rejects.toMatchObject({
      code: "FILE_CORRUPT",
      message: expect.stringContaining("line 2"),
    });
    expect(fs.readFileSync(file, "utf8")).toBe(content);
  });

  test("J2 lines longer than a read chunk", async () => {
    const { writer } = await open();
    const values = [{ text: "x".repeat(3_000_000) }, { text: "y" }];
    for (const value of values) await writer.append(value);
    await writer.close();
    expect(await readBack()).toEqual(values);
  });

  test("J4 long lines with typed arrays, between short ones", async () => {
    const { writer } = await open();
    const ids = Int32Array.from({ length: 400_000 }, (_, at) => at);
    const appended = [{ a: 1 }, { ids }, { b: 2 }, { c: ids, d: "x" }, { e: 3 }];
    await Promise.all(appended.map((value) => writer.append(value)));
    await writer.close();
    const plain = Array.from(ids);
    expect(await readBack()).toEqual([
      { a: 1 },
      { ids: plain },
      { b: 2 },
      { c: plain, d: "x" },
      { e: 3 },
    ]);
  });

  test("J3 J4 a long line that fails in its middle leaves nothing, and no other line fails with it", async () => {
    const { writer } = await open();
    const logProbs = new Float64Array(400_000).fill(-0.5);
    logProbs[399_999] = Number.NaN;
    const results = await Promise.allSettled(
      [{ a: 1 }, { logProbs }, { b: 2 }].map((value) => writer.append(value)),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    await writer.close();
    expect(await readBack()).toEqual([{ a: 1 }, { b: 2 }]);
  });

  test("J3 a full disk leaves the whole lines, and the file goes on when there is room", async () => {
    const disk = smallDisk(30);
    const writer = new JsonlWriter("x", disk, 0);
    await writer.append({ a: 1 });
    await expect(writer.append({ text: "x".repeat(40) })).rejects.toMatchObject({
      code: "APPEND_FAILED",
    });
    await writer.append({ b: 2 });
    expect(disk.bytes.toString()).toBe('{"a":1}\n{"b":2}\n');
  });

  test("J3 a file that cannot be cut back takes no more lines", async () => {
    const writer = new JsonlWriter("x", smallDisk(30, true), 0);
    await expect(writer.append({ text: "x".repeat(40) })).rejects.toMatchObject({
      code: "APPEND_FAILED",
    });
    await expect(writer.append({ b: 2 })).rejects.toThrow("takes no more lines");
  });
});
