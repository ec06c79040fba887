// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the interpolations of a config file are what is tested.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { describeConfig, loadConfig } from "../../../src/orchestrator/config/load.js";
import { type ConfigError, isConfigError } from "../../../src/orchestrator/errors.js";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-config-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  const file = path.join(folder, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  return file;
}

function refusal(input: Parameters<typeof loadConfig>[0], environment = {}): ConfigError {
  try {
    loadConfig(input, { environment, folder });
  } catch (error) {
    if (isConfigError(error)) return error;
    throw error;
  }
  throw new Error("the config was accepted");
}

const model = { engine: { kind: "embedded", seed: 0 } };
const agent = { kind: "function", model: "policy", module: "./harness.mjs#run" };
const base = { responses_api_models: { policy: model }, responses_api_agents: { loop: agent } };

describe("merging", () => {
  it("merges files in order, mappings deeply, and null unsets", () => {
    const first = write(
      "a.yaml",
      "token_id_capture: { enabled: true, dir: x, max_mask_fraction: 0.5 }\nrollout: { group_size: 4, seed: 1 }\n",
    );
    const second = write(
      "b.yaml",
      "token_id_capture: { max_mask_fraction: null }\nrollout: { seed: 2 }\n",
    );
    const config = loadConfig([first, second]);
    expect(config.rollout).toEqual({ group_size: 4, seed: 2, max_attempts: 1 });
    expect(config.token_id_capture).toMatchObject({ enabled: true, dir: path.join(folder, "x") });
    expect(config.token_id_capture.max_mask_fraction).toBeUndefined();
  });

  it("resolves a relative path against the file that it stands in", () => {
    const first = write(
      "one/a.yaml",
      "token_id_capture: { dir: .corral, sink: ./sink.mjs:Sink }\n",
    );
    const second = write(
      "two/b.yaml",
      `responses_api_models: { policy: { engine: { kind: embedded, checkpoint: policy.bin } } }
responses_api_agents: { loop: { kind: function, model: policy, module: ./h.mjs#run }, cc: { kind: claude_code, model: policy, binary: claude } }
`,
    );
    const config = loadConfig([first, second]);
    expect(config.token_id_capture.dir).toBe(path.join(folder, "one/.corral"));
    expect(config.token_id_capture.sink).toBe(`${path.join(folder, "one/sink.mjs")}:Sink`);
    expect(config.responses_api_models["policy"]?.engine).toMatchObject({
      checkpoint: path.join(folder, "two/policy.bin"),
    });
    expect(config.responses_api_agents["loop"]).toMatchObject({
      module: `${path.join(folder, "two/h.mjs")}#run`,
    });
    expect(config.responses_api_agents["cc"]).toMatchObject({ binary: "claude" });
  });

  it("unwraps a block under env.nemo_gym", () => {
    const file = write(
      "nemo.yaml",
      "env: { nemo_gym: { token_id_capture: { enabled: true, dir: /tmp/captures } } }\n",
    );
    expect(loadConfig(file).token_id_capture).toMatchObject({
      enabled: true,
      dir: "/tmp/captures",
    });
  });

  it("accepts its own output again", () => {
    const config = loadConfig(base, { folder });
    expect(loadConfig(config)).toEqual(config);
  });
});

describe("interpolation", () => {
  const kwargs = (value: unknown) => ({
    token_id_capture: { enabled: true, sink: "pkg:Sink", sink_kwargs: { value } },
    rollout: { seed: 7 },
  });
  const resolved = (value: unknown, environment = {}) =>
    loadConfig(kwargs(value), { environment }).token_id_capture.sink_kwargs["value"];

  it.each([
    ["${oc.env:URL}", { URL: "http://h" }, "http://h"],
    ["${oc.env:URL}/x", { URL: "http://h" }, "http://h/x"],
    ["${oc.env:URL,none}", {}, "none"],
    ["${oc.env:URL,}", {}, ""],
    ["${oc.env:URL,null}", {}, null],
    ["${oc.env:A,${oc.env:B}}", { B: "b" }, "b"],
    ["${oc.env:N}", { N: "12" }, "12"],
    ["${oc.select:rollout.seed}", {}, 7],
    ["${oc.select:cluster_shard,0}", {}, 0],
    ["shard-${oc.select:cluster_shard,0}", {}, "shard-0"],
    ["${oc.select:rollout}", {}, { seed: 7 }],
  ])("%s", (text, environment, expected) => {
    expect(resolved(text, environment)).toEqual(expected);
  });

  it("V1. reads a value of the environment as the type that the schema wants", () => {
    const environment = { N: "3", FLAG: "true", DIR: "7" };
    const config = loadConfig(
      {
        token_id_capture: { enabled: "${oc.env:FLAG}", dir: "${oc.env:DIR}" },
        rollout: { group_size: "${oc.env:N}" },
      },
      { environment, folder },
    );
    expect(config.rollout.group_size).toBe(3);
    expect(config.token_id_capture).toMatchObject({ enabled: true, dir: path.join(folder, "7") });
  });

  it("V2. never quotes a value of the environment", () => {
    const error = refusal({ rollout: { seed: "${oc.env:SECRET}" } }, { SECRET: "hunter2" });
    expect(error.message).not.toContain("hunter2");
    expect(error.message).toContain("rollout.seed: the value of ${oc.env:SECRET} is not valid");
  });

  it("N1. V3. leaves a disabled capture block unresolved and still checks its keys", () => {
    const block = { enabled: false, max_mask_fraction: "${oc.env:NOPE}", dir: "${oc.env:NOPE}" };
    expect(
      loadConfig({ token_id_capture: block }, { environment: {} }).token_id_capture.enabled,
    ).toBe(false);
    const misspelled = { token_id_capture: { ...block, dirr: "${oc.env:NOPE}" } };
    expect(refusal(misspelled).message).toContain("token_id_capture.dirr");
    expect(refusal({ token_id_capture: { ...block, enabled: true } }).code).toBe("ENV_UNSET");
  });

  it.each([
    [
      "${oc.env:NOPE}",
      "ENV_UNSET",
      "token_id_capture.sink_kwargs.value: the environment variable NOPE is not set",
    ],
    ["${rollout.seed}", "BAD_INTERPOLATION", "allowed: ${oc.env:VAR}"],
    ["${oc.env:X", "BAD_INTERPOLATION", "no closing brace"],
    ["${oc.select:a.b}", "BAD_INTERPOLATION", "selects nothing"],
    ["${oc.select:token_id_capture.sink_kwargs.value}", "BAD_INTERPOLATION", "selects itself"],
    ["a ${oc.select:rollout}", "BAD_INTERPOLATION", "cannot stand inside text"],
  ])("refuses %s", (text, code, message) => {
    const error = refusal(kwargs(text));
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
  });
});

describe("refusals", () => {
  const withAgent = (fields: object) => ({
    ...base,
    responses_api_agents: { loop: { ...agent, ...fields } },
  });
  const withModel = (fields: object) => ({
    ...base,
    responses_api_models: { policy: { ...model, ...fields } },
  });

  it.each<[string, object, string]>([
    [
      "a misspelled block",
      { token_id_captur: {} },
      "token_id_captur: is not a known key; the nearest valid key is token_id_capture",
    ],
    [
      "a misspelled key",
      { token_id_capture: { enabledd: true } },
      "token_id_capture.enabledd: is not a known key; the nearest valid key is token_id_capture.enabled",
    ],
    [
      "a key of another level",
      { group_size: 4 },
      "group_size: is not a known key; the nearest valid key is rollout.group_size",
    ],
    [
      "a key two levels off",
      withModel({ temperature: 1 }),
      "responses_api_models.policy.temperature: is not a known key; the nearest valid key is responses_api_models.<name>.sampling_overrides.temperature",
    ],
    [
      "a key of another kind",
      withAgent({ binary: "x" }),
      "responses_api_agents.loop.binary: is not a known key",
    ],
    [
      "a wrong type",
      { rollout: { group_size: "four" } },
      'rollout.group_size: "four" is not valid; allowed: a number',
    ],
    [
      "a fraction for a count",
      { rollout: { group_size: 1.5 } },
      "rollout.group_size: 1.5 is not valid; allowed: an integer",
    ],
    [
      "too small",
      { rollout: { group_size: 0 } },
      "rollout.group_size: 0 is not valid; allowed: at least 1",
    ],
    [
      "too large",
      withModel({ sampling_overrides: { top_p: 1.5 } }),
      "responses_api_models.policy.sampling_overrides.top_p: 1.5 is not valid; allowed: at most 1",
    ],
    ["an open bound", withModel({ sampling_overrides: { top_p: 0 } }), "allowed: more than 0"],
    [
      "an unknown engine",
      withModel({ engine: { kind: "tgi" } }),
      'responses_api_models.policy.engine.kind: "tgi" is not valid; allowed: "embedded", "vllm", "sglang", "llama_cpp", "vllm_chat", "sglang_chat", "openai_compatible"',
    ],
    [
      "an unknown harness",
      withAgent({ kind: "gemini" }),
      'responses_api_agents.loop.kind: "gemini" is not valid; allowed: "claude_code", "claude_agent_sdk", "codex", "opencode", "pi", "command", "function"',
    ],
    [
      "a missing key",
      { ...base, responses_api_agents: { loop: { kind: "function", model: "policy" } } },
      "responses_api_agents.loop.module: is missing",
    ],
    ["a list for a mapping", { rollout: [1] }, "rollout: [1] is not valid; allowed: a mapping"],
    [
      "a module without export",
      withAgent({ module: "./h.mjs" }),
      'responses_api_agents.loop.module: "./h.mjs" is not valid; allowed: must be "module#export"',
    ],
    [
      "an unknown model",
      withAgent({ model: "polisy" }),
      'responses_api_agents.loop.model: "polisy" is no key of responses_api_models; the nearest configured one is "policy"',
    ],
    [
      "Gym: a server nested under its name",
      { policy_model: { responses_api_models: { vllm_model: {} } } },
      "policy_model: is a NeMo Gym key; Corral spells it responses_api_models.policy_model",
    ],
    ["Gym: a model key", withModel({ entrypoint: "app.py" }), "Corral spells it engine.kind"],
    [
      "Gym: an agent key",
      withAgent({ resources_server: {} }),
      "Corral spells it verifier and verifier_params on each task",
    ],
    [
      "Gym: a command key",
      { num_repeats: 4 },
      "num_repeats: is a NeMo Gym key; Corral spells it rollout.group_size",
    ],
    ["NeMo RL beside the block", { env: { nemo_gym: {}, other: 1 } }, "env: is a NeMo Gym key"],
    [
      "a prototype",
      JSON.parse('{"rollout": {"__proto__": {"seed": 1}}}'),
      "rollout.__proto__: is not a key",
    ],
  ])("%s", (_name, input, message) => {
    expect(refusal(input as Record<string, unknown>).message).toContain(message);
  });

  it("a missing file, a file that is no YAML, a file that is no mapping", () => {
    const missing = refusal(path.join(folder, "nope.yaml"));
    expect(missing.code).toBe("FILE_NOT_FOUND");
    expect(missing.message).toContain("nope.yaml (ENOENT)");
    expect(refusal(write("bad.yaml", "a: [1\n")).code).toBe("CONFIG_SYNTAX");
    expect(refusal(write("list.yaml", "- 1\n")).message).toContain("must hold a mapping");
    expect(refusal(write("twice.yaml", "rollout: {}\nrollout: {}\n")).code).toBe("CONFIG_SYNTAX");
  });
});

describe("describeConfig", () => {
  it("N2. prints no secret: kwargs of the environment, and kwargs named like one", () => {
    const text = describeConfig(
      {
        token_id_capture: {
          enabled: true,
          sink: "pkg:Sink",
          sink_kwargs: {
            endpoint: "${oc.env:URL}",
            shard: 3,
            auth: { api_key: "k1", Password: "k2", user: "me", list: ["${oc.env:URL}"] },
          },
        },
      },
      { environment: { URL: "http://secret" } },
    );
    for (const secret of ["http://secret", "k1", "k2"]) expect(text).not.toContain(secret);
    expect(text).toContain('endpoint: "***"');
    expect(text).toContain("shard: 3");
    expect(text).toContain("user: me");
    expect(text).toContain("require_rollout_key: true");
  });
});
