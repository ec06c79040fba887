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
    ["a key of every object", "constructor: {}", "constructor: is not a known key"],
    ["a forbidden key", "__proto__: { a: 1 }", "__proto__: is not a key"],
    ["a key given twice", "rollout: {}\nrollout: {}", "Map keys must be unique"],
    [
      "aliases without end",
      `a: &a [${"x,".repeat(9)}x]\n${["b", "c", "d"].map((key, at) => `${key}: &${key} [${`*${"abc"[at]},`.repeat(9)}x]\n`).join("")}`,
      "Excessive alias count",
    ],
    [
      "an agent of no model",
      "responses_api_agents: { a: { kind: function, module: 'x#y', model: polcy } }",
      'responses_api_agents.a.model: "polcy" is no key of responses_api_models',
    ],
    [
      "a sink that could not be rebuilt",
      "token_id_capture: { enabled: true, sink: 'a:B', lineage: 'a:C' }",
      "token_id_capture.source: is missing beside sink",
    ],
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

describe("corral run refuses a bad tasks file with its line, before it makes anything:", () => {
  const good = { _ng_task_index: 0, responses_create_params: { input: "x" } };
  const bad = { ...good, _ng_task_index: 1 };
  const files = (key: string) => JSON.stringify({ ...bad, files: { [key]: "" } });
  it.each([
    ["no JSON", "{", "line 2: is not JSON"],
    ["no object", "[]", "line 2: task"],
    ["a file above", files("../x"), 'line 2: files key "../x"'],
    ["a file in the middle above", files("a/../../x"), 'line 2: files key "a/../../x"'],
    ["an absolute file", files("/x"), 'line 2: files key "/x"'],
    ["a backslash", files("a\\b"), "line 2: files key"],
    ["a NUL", files("a\0b"), "line 2: files key"],
    ["a name too long", files("n".repeat(300)), "line 2: files key"],
    [
      "a key that a parser drops",
      JSON.stringify(bad).replace("{", '{"files":{"__proto__":""},'),
      "line 2: files",
    ],
    [
      "input that is no text",
      JSON.stringify({
        ...bad,
        responses_create_params: { input: [{ role: "user", content: 7 }] },
      }),
      "line 2: responses_create_params.input [0]",
    ],
    ["an index twice", JSON.stringify(good), "line 2: _ng_task_index"],
    ["an id above", JSON.stringify({ ...bad, _ng_rollout_id: "../x" }), "task 1: _ng_rollout_id"],
    ["an empty id", JSON.stringify({ ...bad, _ng_rollout_id: "" }), "task 1: _ng_rollout_id"],
    [
      "a long id",
      JSON.stringify({ ...bad, _ng_rollout_id: "r".repeat(300) }),
      "task 1: _ng_rollout_id",
    ],
    [
      "an id of another task",
      JSON.stringify({ ...bad, _ng_rollout_id: "0-0" }),
      "task 1: _ng_rollout_id",
    ],
  ])("%s", async (_name, line, message) => {
    const agents =
      "responses_api_agents: { a: { kind: function, module: 'x#y', model: policy } }\n";
    const config = write("run.yaml", `${model}${agents}`);
    const tasks = write("tasks.jsonl", `${JSON.stringify(good)}\n${line}\n`);
    const out = path.join(folder, "made", "out.jsonl");
    const args = ["run", "--config", config, "--tasks", tasks, "--out", out];
    expectRefusal(await runCorral(args), message);
    expect(fs.existsSync(path.dirname(out))).toBe(false);
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

  it("prints every chain of a rollout in all, each sampled token once, in either form", async () => {
    const tree = cases.find(({ expected }) => expected.metrics.chains > 1);
    const lines = tree.entries.map((entry: object) => JSON.stringify(entry));
    const entries = write("tree.jsonl", lines.join("\n"));
    const flags = ["--entries", entries, "--mode", "all", "--form", "delta"];
    const { code, stdout } = await runCorral(["rebuild", ...flags]);
    expect(code).toBe(0);
    const build = JSON.parse(stdout);
    const responses = [
      build.rebuilt_response,
      ...build.trajectories.map((one: { response: object }) => one.response),
    ];
    expect(responses).toHaveLength(tree.expected.metrics.chains);
    const generated = responses.flatMap(({ output }) =>
      output.flatMap(
        (item: { generation_token_ids?: number[] }) => item.generation_token_ids ?? [],
      ),
    );
    const { generated_tokens_captured, ...metrics } = build.metrics;
    expect(metrics.trajectories).toBe(responses.length);
    expect(generated.length).toBeLessThanOrEqual(generated_tokens_captured);
    expect(responses.every(({ output_form }) => output_form === "delta")).toBe(true);
  });

  it("refuses a mode or a form that does not exist and a missing file", async () => {
    const some = await runCorral(["rebuild", "--entries", "x", "--mode", "some"]);
    expectRefusal(some, '--mode: "some" is not valid; allowed: main, all');
    const zip = await runCorral(["rebuild", "--entries", "x", "--form", "zip"]);
    expectRefusal(zip, '--form: "zip" is not valid; allowed: full, delta');
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

  const long = {
    ...row,
    response: {
      output: [
        item,
        {
          prompt_token_ids: [1, 40, 2],
          generation_token_ids: [41, 42],
          generation_log_probs: [-1, -2],
        },
        {
          prompt_token_ids: [1, 40, 2, 41, 42, 3],
          generation_token_ids: [43],
          generation_log_probs: [0],
        },
      ],
    },
    _ng_token_capture: { n_calls: 3, generated_tokens_delivered: 4 },
  };
  type Long = typeof long;
  const changes: Record<string, (broken: Long) => unknown> = {
    "a prompt id changed": ({ response }) => (response.output[1]!.prompt_token_ids[1] = 7),
    "a generated id changed": ({ response }) => (response.output[1]!.generation_token_ids[0] = 7),
    "a negative id": ({ response }) => (response.output[2]!.generation_token_ids[0] = -1),
    "half an id": ({ response }) => (response.output[2]!.generation_token_ids[0] = 1.5),
    "a log probability above 0": ({ response }) =>
      (response.output[1]!.generation_log_probs[0] = 0.1),
    "vLLM's -9999": ({ response }) => (response.output[1]!.generation_log_probs[0] = -9999),
    "a NaN, which JSON writes as null": ({ response }) =>
      (response.output[1]!.generation_log_probs[0] = Number.NaN),
    "one log probability less": ({ response }) => response.output[1]!.generation_log_probs.pop(),
    "an item missing": ({ response }) => response.output.splice(1, 1),
    "the first item missing": ({ response }) => response.output.shift(),
    "the items reversed": ({ response }) => response.output.reverse(),
    "an item twice": ({ response }) => response.output.push(response.output[2]!),
    "an item without its ids": ({ response }) =>
      Reflect.deleteProperty(response.output[2]!, "generation_token_ids"),
    "no calls": (broken) => (broken._ng_token_capture.n_calls = 0),
    "a reason to mask": (broken) =>
      Object.assign(broken._ng_token_capture, { mask_reasons: [{ code: "CAPTURE_LOST" }] }),
    "an error": (broken) => Object.assign(broken._ng_token_capture, { error: "X: y" }),
    "no id": (broken) => Reflect.deleteProperty(broken, "_ng_rollout_id"),
  };
  it("finds any one change in a row, and a file that was cut", async () => {
    const names = Object.keys(changes);
    const lines = names.map((name, index) => {
      const broken = structuredClone({ ...long, _ng_rollout_id: `${index}-0` });
      changes[name]?.(broken);
      return JSON.stringify(broken);
    });
    const sound = JSON.stringify({ ...long, _ng_rollout_id: "sound" });
    const rows = write("changed.jsonl", [...lines, sound, sound.slice(0, -5)].join("\n"));
    const { code, stdout } = await runCorral(["verify", "--rollouts", rows, "--json"]);
    expect(code).toBe(1);
    const { faults } = JSON.parse(stdout) as { faults: { line: number }[] };
    const found = new Set(faults.map(({ line }) => line));
    const missed = names.filter((_, index) => !found.has(index + 1));
    expect([missed, found.has(names.length + 1), found.has(names.length + 2)]).toEqual([
      [],
      false,
      true,
    ]);
  });

  it("accepts sound rows", async () => {
    const rows = write("good.jsonl", `${JSON.stringify(row)}\n`);
    const { code, stdout } = await runCorral(["verify", "--rollouts", rows]);
    expect(stdout).toContain("not replayed");
    expect(code).toBe(0);
  });
});
