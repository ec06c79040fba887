/** `corral doctor`, `corral mock-engine`, and configs with engines over HTTP. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { MockEngine } from "../../src/mock-engine/index.js";
import { runCorral, startCorral } from "../support/corral-cli.js";
import { modelDirectory } from "../support/families.js";

const folder = mkdtempSync(path.join(tmpdir(), "corral-engines-"));
afterAll(() => rmSync(folder, { recursive: true }));

function config(name: string, engine: object, more = ""): string {
  const file = path.join(folder, name);
  const text = `responses_api_models: { policy: { engine: ${JSON.stringify(engine)}, sampling_overrides: { temperature: 1, top_p: 1, top_k: 0 } } }\n`;
  writeFileSync(file, `token_id_capture: { enabled: true, dir: ${folder}/store }\n${text}${more}`);
  return file;
}

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly warnings: readonly string[];
}

async function doctor(file: string): Promise<{ code: number | null; checks: Check[] }> {
  const { code, stdout, stderr } = await runCorral(["doctor", "--json", "--config", file]);
  if (stdout === "") throw new Error(stderr);
  return { code, checks: JSON.parse(stdout) };
}

describe("corral doctor", () => {
  test("finds a working engine, and what its flags lack", async () => {
    const mock = await MockEngine.start({ shape: "vllm", maxModelLen: 4096 });
    onTestFinished(() => mock.close());
    const engine = { kind: "vllm", urls: [mock.url], model_dir: modelDirectory("qwen3") };
    const { code, checks } = await doctor(config("good.yaml", engine));
    const [node, capture, model] = checks;
    expect([node?.ok, capture?.ok, model?.ok, code]).toEqual([true, true, true, 0]);
    expect(model?.detail).toMatch(
      /^vllm: token ids, append-only history, context 4096, \d+ \+ \d+ tokens captured, log probabilities raw/,
    );
    expect(model?.warnings.join()).toContain("--logprobs-mode processed_logprobs");
  });

  test.each([
    [
      "nothing listens",
      { kind: "sglang", urls: ["http://127.0.0.1:9"], max_attempts: 1 },
      "responses_api_models.policy.engine: cannot connect to http://127.0.0.1:9",
    ],
    ["no model directory", { model_dir: "/nonexistent" }, "cannot read /nonexistent/"],
    ["another model", { model: "llama" }, "the server serves policy, not llama"],
  ])("%s", async (_what, more, message) => {
    const mock = await MockEngine.start({ shape: "vllm" });
    onTestFinished(() => mock.close());
    const engine = { kind: "vllm", urls: [mock.url], model_dir: modelDirectory("qwen3"), ...more };
    const { code, checks } = await doctor(config("bad.yaml", engine));
    expect(code).toBe(1);
    expect(checks.at(-1)).toMatchObject({ name: "responses_api_models.policy", ok: false });
    expect(checks.at(-1)?.detail).toContain(message);
  });
});

test("a captured agent of an engine without token ids is refused before anything starts", async () => {
  const engine = { kind: "openai_compatible", urls: ["http://127.0.0.1:9"], model: "m" };
  const agent =
    "responses_api_agents: { agent: { kind: claude_code, model: policy, isolation: none, token_id_capture: true } }\n";
  const result = await runCorral(["config", "--config", config("eval.yaml", engine, agent)]);
  expect(result.code).toBe(2);
  expect(result.stderr).toContain(
    "responses_api_models.policy.engine.kind: openai_compatible tells no token ids, so the agent agent cannot be captured",
  );
});

test("an engine's key is not printed", async () => {
  const engine = {
    kind: "openai_compatible",
    urls: ["http://127.0.0.1:9"],
    model: "m",
    api_key: "hunter2",
  };
  const { code, stdout } = await runCorral(["config", "--config", config("key.yaml", engine)]);
  expect(code).toBe(0);
  expect(stdout).toContain('api_key: "***"');
  expect(stdout).not.toContain("hunter2");
});

describe("corral mock-engine", () => {
  test("serves a script, then faults as told, and ends on SIGTERM", async () => {
    const script = path.join(folder, "script.jsonl");
    writeFileSync(
      script,
      '{"text": "hello<|im_end|>"}\n{"token_ids": [1, 2], "log_probs": [-1, -2]}\n',
    );
    const { child, result } = startCorral([
      ...["mock-engine", "--shape", "vllm", "--port", "0", "--served-model-name", "m"],
      ...["--script", script, "--fault", "status_500@3"],
    ]);
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout?.once("data", (chunk: Buffer) => resolve(String(chunk)));
      void result.then(({ stderr }) => reject(new Error(stderr)));
    });
    const url = /at (http:\S+)/.exec(line)?.[1];
    const ask = () =>
      fetch(`${url}/v1/completions`, {
        method: "POST",
        body: JSON.stringify({ prompt: [1], max_tokens: 8, logprobs: 1 }),
      });
    expect(await (await ask()).json()).toMatchObject({
      model: "m",
      usage: { completion_tokens: 2 },
    });
    expect(await (await ask()).json()).toMatchObject({
      choices: [{ token_ids: [1, 2], logprobs: { token_logprobs: [-1, -2] } }],
    });
    expect((await ask()).status).toBe(500);
    child.kill("SIGTERM");
    expect((await result).code).toBe(0);
  });

  test.each([
    [["--shape", "tgi"], '--shape: "tgi" is not valid; allowed: vllm, sglang, llama_cpp'],
    [["--port", "x"], '--port: "x" is not valid; allowed: a whole number from 0 to 65535'],
    [["--fault", "fire"], '--fault: "fire" is not valid; allowed: missing_ids'],
    [["--script", "nope.jsonl"], "--script: cannot read nope.jsonl"],
    [["--logprobs-mode", "cooked"], '--logprobs-mode: "cooked" is not valid'],
  ])("refuses %j", async (more, message) => {
    const result = await runCorral(["mock-engine", ...more]);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(message);
    expect(result.stderr.trimEnd().split("\n")).toHaveLength(1);
  });
});
