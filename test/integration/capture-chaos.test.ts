/** The short form of `npm run chaos`: processes killed and machines stopped with 32 calls in flight. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const harness = fileURLToPath(new URL("../../bench/capture/chaos/main.mjs", import.meta.url));

interface Report {
  readonly kills: number;
  readonly images: number;
  readonly acknowledged: number;
  readonly faults: readonly string[];
}

async function chaos(...args: string[]): Promise<Report> {
  const { stdout, stderr } = await new Promise<{ stdout: string; stderr: string }>((resolve) =>
    execFile(
      process.execPath,
      [harness, "--json", "--within", "300", ...args],
      (_error, out, err) => resolve({ stdout: out, stderr: err }),
    ),
  );
  expect(stderr).toBe("");
  return JSON.parse(stdout) as Report;
}

test("T1 after kill -9 and after a machine stop nothing acknowledged is lost and nothing incomplete looks whole", async () => {
  const report = await chaos("--kills", "3", "--images", "6");
  expect(report).toMatchObject({ kills: 3, images: 6, faults: [] });
  expect(report.acknowledged).toBeGreaterThan(3);
}, 600_000);

test("the harness can fail: without pages that were synced it finds what is lost", async () => {
  const { faults } = await chaos("--kills", "2", "--images", "8", "--unsafe");
  expect(
    faults.filter((fault) => fault.includes("acknowledged and is lost")).length,
  ).toBeGreaterThan(0);
}, 600_000);
