/** The HTTP client of engines against real sockets. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { engineErrorCode } from "../../src/actors/model-server/engines/engine-error.js";
import { openEngine } from "../../src/actors/model-server/engines/open-engine.js";
import { EngineOptions } from "../../src/actors/model-server/engines/options.js";
import { CHAT_ENGINES, engineClient, openForTest, startMock } from "../support/engines.js";
import { modelDirectory } from "../support/families.js";
import { ManualClock } from "../support/manual-clock.js";
import { emitted, qwen3Renderer } from "../support/model-server.js";

const never = () => new AbortController().signal;

const body = async (maxTokens = 4) => ({
  model: "policy",
  prompt: Array.from(await emitted("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")),
  max_tokens: maxTokens,
});

const post = async (client: ReturnType<typeof engineClient>, more: object = {}) =>
  client.post("/v1/completions", await body(), { signal: never(), ...more });

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "no error",
    (error: unknown) => engineErrorCode(error) ?? String(error),
  );

describe("U1. a call is sent again", () => {
  test.each(["status_429", "status_503"] as const)("after %s", async (fault) => {
    const mock = await startMock("vllm", { faults: [fault, fault] });
    await post(engineClient([mock.url], { maxAttempts: 3 }));
    expect(mock.calls).toHaveLength(3);
  });

  test("no more than maxAttempts times", async () => {
    const mock = await startMock("vllm", { faults: ["status_429", "status_429"] });
    expect(await codeOf(post(engineClient([mock.url], { maxAttempts: 2 })))).toBe(
      "ENGINE_UNAVAILABLE",
    );
    expect(mock.calls).toHaveLength(2);
  });

  test.each(["status_500", "reset", "reset_in_body"] as const)(
    "never after %s: it may have been running",
    async (fault) => {
      const mock = await startMock("vllm", { faults: [fault] });
      expect(await codeOf(post(engineClient([mock.url])))).toBe("ENGINE_FAILED");
      expect(mock.calls).toHaveLength(1);
    },
  );

  test("on another replica at once when the first cannot be reached", async () => {
    const mock = await startMock("vllm");
    const client = engineClient([await closedUrl(), mock.url]);
    for (let call = 0; call < 4; call++) await post(client);
    expect(mock.calls).toHaveLength(4);
  });

  test("nothing listens: the error says where", async () => {
    const url = await closedUrl();
    const client = engineClient([url], { maxAttempts: 1 });
    await expect(post(client)).rejects.toThrow(`cannot connect to ${url}`);
    expect(await codeOf(post(client))).toBe("ENGINE_UNAVAILABLE");
  });
});

describe("U2. no call outlives", () => {
  test("its deadline", async () => {
    const mock = await startMock("vllm", { faults: ["stall"] });
    const clock = new ManualClock();
    const calling = codeOf(post(engineClient([mock.url], { clock, requestTimeoutMs: 777 })));
    await mock.called(1);
    clock.advance(777);
    expect(await calling).toBe("ENGINE_TIMEOUT");
    await mock.aborted(mock.calls[0]!);
  });

  test("its client, also while it waits to be sent again", async () => {
    const mock = await startMock("vllm", { faults: ["status_503", "status_503"] });
    const controller = new AbortController();
    const clock = new ManualClock();
    const calling = post(engineClient([mock.url], { clock }), { signal: controller.signal });
    await mock.called(1);
    controller.abort(new Error("gone"));
    await expect(calling).rejects.toThrow("gone");
    expect(mock.calls).toHaveLength(1);
  });
});

describe("routing", () => {
  test("R1. a key keeps to one replica; R2. new keys go where least is running", async () => {
    const [a, b] = [await startMock("vllm"), await startMock("vllm")];
    const client = engineClient([a.url, b.url]);
    a.addFaults("stall");
    const held = new AbortController();
    const holding = post(client, { affinity: "r0", signal: held.signal });
    await a.called(1);
    for (const affinity of ["r1", "r1", "r2", "r1"]) await post(client, { affinity });
    expect([a.calls.length, b.calls.length]).toEqual([1, 4]);
    held.abort(new Error("done"));
    await expect(holding).rejects.toThrow("done");
    await post(client, { affinity: "r0" });
    expect(a.calls).toHaveLength(2);
  });

  test("U3. a replica that broke is left alone until it is healthy again", async () => {
    const [a, b] = [await startMock("vllm"), await startMock("vllm")];
    const clock = new ManualClock();
    const client = engineClient([a.url, b.url], { clock, healthIntervalMs: 555 });
    a.addFaults("reset");
    expect(await codeOf(post(client, { affinity: "r1" }))).toBe("ENGINE_FAILED");
    await post(client, { affinity: "r1" });
    await post(client);
    expect([a.calls.length, b.calls.length]).toEqual([1, 2]);
    const looked = a.healthChecked();
    clock.advance(555);
    await looked;
    // The answer to the look arrives on the same connection before any later call's.
    await expect
      .poll(async () => {
        await post(client);
        return a.calls.length;
      })
      .toBeGreaterThan(1);
  });
});

test("a graceful close waits for calls in flight, then breaks them off", async () => {
  const mock = await startMock("vllm");
  const clock = new ManualClock();
  const client = engineClient([mock.url], { clock, drainTimeoutMs: 888 });
  mock.addFaults("stall");
  const calling = codeOf(post(client));
  await mock.called(1);
  const closing = client.close();
  await clock.timerOf(888);
  clock.advance(888);
  await closing;
  expect(await calling).toBe("ENGINE_FAILED");
});

test("J1. NaN of a server stays NaN, and text that spells it stays text", async () => {
  const url = await serverOf('{"a": NaN, "b": ["-Infinity", -Infinity, "say \\"NaN\\""], "c": 1}');
  expect(await engineClient([url]).post("/x", {}, { signal: never() })).toEqual({
    a: Number.NaN,
    b: ["-Infinity", Number.NaN, 'say "NaN"'],
    c: 1,
  });
});

test("keys are sent as a bearer token, paths are kept behind a prefix", async () => {
  let seen: unknown;
  const url = await serverOf("{}", (request) => {
    seen = [request.url, request.headers.authorization];
  });
  const client = engineClient([`${url}/base/`], { apiKey: "secret" });
  await client.post("/x", {}, { signal: never() });
  expect(seen).toEqual(["/base/x", "Bearer secret"]);
});

describe("start checks name what is missing", () => {
  const open = async (mock: { url: string }, name: Parameters<typeof openForTest>[0]) =>
    openForTest(name, engineClient([mock.url]));

  test.each([
    ["vllm", "missing_ids", "sends no token ids"],
    ["vllm", "missing_logprobs", "--max-logprobs 0"],
    ["vllm", "other_prompt", "made"],
    ["vllm", "status_500", "answered 500"],
    ["sglang", "missing_ids", "sends no token ids"],
    ["sglang", "missing_logprobs", "sends no log probabilities"],
    ["llama_cpp", "missing_ids", "return_tokens"],
    ["llama_cpp", "missing_logprobs", "n_probs"],
    ["vllm_chat", "missing_ids", "return_token_ids"],
    ["vllm_chat", "missing_logprobs", "--max-logprobs 0"],
    ["sglang_chat", "missing_ids", "return_meta_info"],
    ["sglang_chat", "missing_logprobs", "sends no log probabilities"],
  ] as const)("%s with %s", async (name, fault, message) => {
    const mock = await startMock(name, { faults: [fault] });
    await expect(open(mock, name)).rejects.toThrow(message);
  });

  test("the tool parser of vllm_chat", async () => {
    const mock = await startMock("vllm_chat", { autoToolChoice: false });
    await expect(open(mock, "vllm_chat")).rejects.toThrow(
      "--enable-auto-tool-choice --tool-call-parser",
    );
  });

  test("the tool parser of sglang_chat", async () => {
    const mock = await startMock("sglang_chat", { autoToolChoice: false });
    expect((await open(mock, "sglang_chat")).warnings).toEqual([
      expect.stringContaining("--tool-call-parser"),
    ]);
    expect((await open(await startMock("sglang_chat"), "sglang_chat")).warnings).toEqual([]);
  });

  test.each(CHAT_ENGINES)("%s counts tokens as its server renders them", async (name) => {
    const mock = await startMock(name);
    const { engine } = await open(mock, name);
    const hi = {
      model: "",
      system: "",
      tools: [],
      messages: [{ role: "user", text: "hi" }],
    } as const;
    expect(await engine.countTokens(hi)).toBe((await (await qwen3Renderer()).promptIds(hi)).length);
  });

  test("E1. raw log probabilities are measured, and warned of", async () => {
    for (const name of ["vllm", "vllm_generate", "vllm_chat"] as const) {
      const raw = await startMock(name, { logprobsMode: "raw_logprobs" });
      expect((await open(raw, name)).warnings).toEqual([
        expect.stringContaining("--logprobs-mode processed_logprobs"),
      ]);
      const processed = await startMock(name);
      expect((await open(processed, name)).warnings).toEqual([]);
    }
  });

  const options = (kind: string, url: string, more: object = {}) =>
    EngineOptions.parse({ kind, urls: [url], ...more });

  test("a whole engine from its options: the model's directory, its name, the context below the pin", async () => {
    const mock = await startMock("vllm", { maxModelLen: 4096, servedModelName: "qwen" });
    const model_dir = modelDirectory("qwen3");
    const { engine, warnings } = await openEngine(options("vllm", mock.url, { model_dir }), {
      max_tokens: 32_000,
    });
    onTestFinished(() => engine.close());
    expect(engine.capabilities).toEqual({
      tokenIds: true,
      prefixSupply: true,
      reportsPolicyVersion: true,
      contextTokens: 4096,
    });
    expect(mock.calls[0]?.path).toBe("/inference/v1/generate");
    expect(warnings).toEqual([expect.stringContaining("--max-model-len")]);
    const unknown = options("vllm", mock.url, { model_dir, model: "llama" });
    await expect(openEngine(unknown, {})).rejects.toThrow(
      "the server serves qwen, not llama; set engine.model or --served-model-name",
    );
  });

  test("a server without the generate endpoint is spoken to by completions", async () => {
    const mock = await startMock("vllm", { generateEndpoint: false });
    const { engine } = await openEngine(
      options("vllm", mock.url, { model_dir: modelDirectory("qwen3") }),
      {},
    );
    onTestFinished(() => engine.close());
    expect(engine.capabilities.reportsPolicyVersion).toBe(false);
    expect(mock.calls.at(-1)?.path).toBe("/v1/completions");
  });

  test("pause and resume reach the server; a server without them is no error", async () => {
    const mock = await startMock("vllm");
    const { engine } = await open(mock, "vllm");
    expect(await engine.pause?.()).toBe(true);
    expect(await engine.resume?.()).toBe(true);
    const llama = await startMock("llama_cpp");
    expect(await (await open(llama, "llama_cpp")).engine.pause?.()).toBe(false);
    const bare = engineClient([await serverOf("{}", undefined, 404)]);
    expect(await bare.postToAll("/pause", {})).toBe(false);
  });
});

async function closedUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = urlOf(server);
  await new Promise((resolve) => server.close(resolve));
  return url;
}

/** A server that answers every request with that text. */
async function serverOf(
  text: string,
  see: (request: import("node:http").IncomingMessage) => void = () => undefined,
  status = 200,
): Promise<string> {
  const server = createServer((request, response) => {
    see(request);
    request.resume();
    response.writeHead(status, { "content-type": "application/json" }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return urlOf(server);
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
