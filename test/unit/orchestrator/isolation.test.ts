/** What a harness may touch is said in its config, wherever its model can write any command. */
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../../src/orchestrator/config/load.js";
import { withServerCapture } from "../../../src/orchestrator/remote-serving.js";

const urls = ["http://127.0.0.1:1"];
const ENGINES = [
  { kind: "vllm", urls, model_dir: "m" },
  { kind: "vllm_chat", urls },
  { kind: "sglang", urls, model_dir: "m" },
  { kind: "sglang_chat", urls },
  { kind: "llama_cpp", urls },
  { kind: "openai_compatible", urls, model: "m" },
];
const EMBEDDED = { kind: "embedded" };
const HARNESSES = [
  { kind: "claude_code" },
  { kind: "codex" },
  { kind: "pi" },
  { kind: "command", command: ["true"] },
];
const FUNCTION = { kind: "function", module: "./h.mjs#run" };

const load = (engine: object, agent: object) =>
  loadConfig(
    {
      responses_api_models: { policy: { engine } },
      responses_api_agents: { a: { model: "policy", ...agent } },
    },
    { environment: {}, folder: "/" },
  );

const pairs = ENGINES.flatMap((engine) =>
  HARNESSES.map((harness) => [harness.kind, engine.kind, engine, harness] as const),
);

describe("N1. no default decides that a model's commands run with your rights", () => {
  test.each(pairs)("%s on %s", (_harness, _engine, engine, harness) => {
    expect(() => load(engine, harness)).toThrow(
      'responses_api_agents.a.isolation: is missing, and its model policy is no embedded policy, so it can write any command; allowed: "bwrap", or "none"',
    );
    for (const isolation of ["none", "bwrap"])
      expect(load(engine, { ...harness, isolation }).responses_api_agents["a"]).toMatchObject({
        isolation,
      });
  });

  test("the embedded policy cannot, and a function isolates what it starts", () => {
    for (const harness of [...HARNESSES, FUNCTION])
      expect(() => load(EMBEDDED, harness)).not.toThrow();
    for (const engine of ENGINES) expect(() => load(engine, FUNCTION)).not.toThrow();
  });

  test("against another server it is the server's engine that counts", () => {
    const capabilities = {
      models: ["other", "policy"],
      token_id_capture: load(EMBEDDED, FUNCTION).token_id_capture,
    };
    const served = (digests: (string | null)[]) =>
      ({ url: "", attachment: { capabilities, digests } }) as never;
    const config = load(EMBEDDED, { kind: "claude_code" });
    expect(() => withServerCapture(config, served([null, "sha"]))).not.toThrow();
    expect(() => withServerCapture(config, served(["sha", null]))).toThrow("isolation: is missing");
    const said = load(EMBEDDED, { kind: "claude_code", isolation: "none" });
    expect(() => withServerCapture(said, served(["sha", null]))).not.toThrow();
  });
});
