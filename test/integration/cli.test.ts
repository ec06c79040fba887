// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the interpolations of a config file are what is tested.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { type CorralResult, runCorral, startCorral } from "../support/corral-cli.js";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-cli-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  const file = path.join(folder, name);
  fs.writeFileSync(file, text);
  return file;
}

/** One line on stderr that opens with the command's name, and nothing on stdout. */
function expectRefusal(result: CorralResult, message: string): void {
  expect(result.stderr).toContain(message);
  expect(result.stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(result.stderr).toMatch(/^corral: /);
  expect(result.stdout).toBe("");
  expect(result.code).toBe(2);
}

const model = "responses_api_models: { policy: { engine: { kind: embedded } } }\n";

describe("corral config", () => {
  it.each([
    [
      "a misspelled key",
      "token_id_capture: { enabledd: true }",
      "token_id_capture.enabledd: is not a known key; the nearest valid key is token_id_capture.enabled",
    ],
    [
      "a wrong type",
      "rollout: { group_size: many }",
      'rollout.group_size: "many" is not valid; allowed: a number',
    ],
    [
      "an unset variable",
      'token_id_capture: { enabled: true, dir: "${oc.env:CORRAL_NOT_SET}" }',
      "token_id_capture.dir: the environment variable CORRAL_NOT_SET is not set",
    ],
    [
      "no place to record",
      "token_id_capture: { enabled: true }",
      "token_id_capture.dir: is missing; allowed: a folder for the store, a sink, or rebuild_response: false",
    ],
    [
      "a sink without lineage",
      "token_id_capture: { enabled: true, sink: 'pkg:Sink', rebuild_response: false }",
      "token_id_capture.lineage: is missing beside sink",
    ],
    [
      "a setting of a later version",
      "token_id_capture: { keep_masked_mb: 5 }",
      "token_id_capture.keep_masked_mb: is not available",
    ],
    [
      "a Gym key",
      "num_repeats: 3",
      "num_repeats: is a NeMo Gym key; Corral spells it rollout.group_size",
    ],
    ["no YAML", "a: [", "is not YAML"],
  ])("refuses %s with exit code 2", async (_name, text, message) => {
    expectRefusal(await runCorral(["config", "--config", write("bad.yaml", text)]), message);
  });

  it("refuses a missing file, a missing option and an unknown command", async () => {
    const missing = await runCorral(["config", "--config", "nope.yaml"]);
    expectRefusal(missing, "--config: cannot read nope.yaml (ENOENT)");
    expectRefusal(await runCorral(["config"]), "'--config <file...>' not specified");
    expectRefusal(await runCorral(["conifg"]), "unknown command 'conifg'");
  });

  it("prints the merged config without secrets", async () => {
    const sink =
      'sink: "pkg:Sink", lineage: "pkg:Lineage", sink_kwargs: { url: "${oc.env:CORRAL_URL}" }';
    const first = write(
      "first.yaml",
      `${model}token_id_capture: { enabled: true, rebuild_response: false, ${sink} }\n`,
    );
    const second = write("second.yaml", "rollout: { group_size: 3 }\n");
    const env = { CORRAL_URL: "http://hidden" };
    const result = await runCorral(["config", "--config", first, second], { env });
    expect(result.code).toBe(0);
    expect(result.stdout).toContain('url: "***"');
    expect(result.stdout).toContain("group_size: 3");
    expect(result.stdout + result.stderr).not.toContain("hidden");
    expect(result.stderr).toContain("corral: warning: token_id_capture.enabled is true, but no");
  });
});

describe("corral rebuild", () => {
  const vectors = new URL("../fixtures/builder-cases.jsonl.gz", import.meta.url);
  const cases = gunzipSync(fs.readFileSync(fileURLToPath(vectors)))
    .toString()
    .trim()
    .split("\n")
    .slice(0, 40)
    .map((line) => JSON.parse(line));

  it("prints one build for each rollout", async () => {
    const lines = cases.flatMap((one) => one.entries).map((entry) => JSON.stringify(entry));
    const entries = write("entries.jsonl", lines.join("\n"));
    const { code, stdout } = await runCorral(["rebuild", "--entries", entries]);
    expect(code).toBe(0);
    const builds = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(builds.map((build) => [build.rollout_id, build.mask_sample])).toEqual(
      cases.map(({ expected }) => [expected.rollout_id, expected.mask_sample]),
    );
    expect(builds.map((build) => build.rebuilt_response?.output ?? null)).toEqual(
      cases.map(({ expected }) => expected.rebuilt_response?.output ?? null),
    );
  });

  it("ends quietly when its reader goes away", async () => {
    const [entry] = cases[0].entries;
    const lines = Array.from({ length: 2000 }, (_, index) => ({
      ...entry,
      rollout_id: `r${index}`,
    }));
    const entries = write("many.jsonl", lines.map((line) => JSON.stringify(line)).join("\n"));
    const { child, result } = startCorral(["rebuild", "--entries", entries]);
    child.stdout?.destroy();
    expect(await result).toMatchObject({ code: 0, signal: null, stderr: "" });
  });

  it("refuses a newer record by name, masks its rollout and exits with 1", async () => {
    const [first] = cases[0].entries;
    const newer = write("newer.jsonl", `${JSON.stringify({ ...first, schema_version: 99 })}\n`);
    const { code, stdout, stderr } = await runCorral(["rebuild", "--entries", newer]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^corral: --entries: SCHEMA_TOO_NEW: .*99/);
    expect(JSON.parse(stdout)).toMatchObject({ mask_sample: true, rebuilt_response: null });
  });

  it("refuses a mode that does not exist yet and a missing file", async () => {
    const all = await runCorral(["rebuild", "--entries", "x", "--mode", "all"]);
    expectRefusal(all, "--mode: all is not available yet; allowed: main");
    const missing = await runCorral(["rebuild", "--entries", "none.jsonl"]);
    expectRefusal(missing, "--entries: cannot read none.jsonl (ENOENT)");
  });
});

describe("corral verify", () => {
  const item = {
    prompt_token_ids: [1],
    generation_token_ids: [40],
    generation_log_probs: [-1],
  };
  const row = {
    _ng_rollout_id: "0-0",
    reward: 1,
    response: { output: [item] },
    _ng_token_capture: { n_calls: 1 },
  };

  it("finds what is wrong with rows and exits with 1", async () => {
    const { _ng_token_capture: _, ...rest } = row;
    const notRebuilt = { ...rest, _ng_rollout_id: "0-1" };
    const lines = [row, row, notRebuilt].map((one) => JSON.stringify(one));
    const rows = write("rows.jsonl", [...lines, "{"].join("\n"));
    const { code, stdout } = await runCorral(["verify", "--rollouts", rows, "--json"]);
    expect(code).toBe(1);
    const { faults } = JSON.parse(stdout) as { faults: { line: number; problem: string }[] };
    const found = faults.map(({ line, problem }) => `${line} ${problem}`);
    expect(found).toEqual([
      "2 stands in the file twice",
      "3 not_rebuilt: has no _ng_token_capture",
      "4 is not JSON",
    ]);
  });

  it("accepts sound rows", async () => {
    const rows = write("good.jsonl", `${JSON.stringify(row)}\n`);
    const { code, stdout } = await runCorral(["verify", "--rollouts", rows]);
    expect(stdout).toContain("not replayed");
    expect(code).toBe(0);
  });
});
