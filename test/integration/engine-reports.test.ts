/** What inference servers and their clients have done wrong in public, as inputs to our engines. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { llamaCppAnswer } from "../../src/actors/model-server/engines/llama-cpp.js";
import { sglangAnswer } from "../../src/actors/model-server/engines/sglang-wire.js";
import { vllmAnswer } from "../../src/actors/model-server/engines/vllm-wire.js";
import {
  CHAT_ENGINES,
  engineClient,
  openForTest,
  rolloutWith,
  startMock,
  TOKEN_ENGINES,
} from "../support/engines.js";
import { keyHeaders, userRequest } from "../support/model-server.js";

test.each([...TOKEN_ENGINES, ...CHAT_ENGINES])(
  "%s: a harness's stream never makes an engine stream, where servers lose ids and log probabilities (https://github.com/vllm-project/vllm/pull/29074, https://github.com/vllm-project/vllm/pull/37738, https://github.com/sgl-project/sglang/pull/28601, https://github.com/sgl-project/sglang/issues/26778, https://github.com/sgl-project/sglang/pull/37365)",
  async (name) => {
    const mock = await startMock(name);
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    const response = await rollout.call(userRequest("hi", { stream: true, seed: 7 }));
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    expect(await response.text()).toContain("message_stop");
    const [entry] = (await rollout.store.freeze("r1")).entries;
    expect(entry?.generation_token_ids.length).toBeGreaterThan(0);
    expect(entry?.generation_log_probs).toHaveLength(entry?.generation_token_ids.length ?? -1);
    expect(mock.calls.map(({ body }) => body["stream"])).toEqual(mock.calls.map(() => false));
  },
);

test.each(["vllm", "vllm_chat", "sglang_chat"] as const)(
  "%s: a call by Responses has its log probabilities: no server's own /v1/responses is used (https://github.com/vllm-project/vllm/issues/23225)",
  async (name) => {
    const mock = await startMock(name);
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    const response = await fetch(`${rollout.base("r1")}/v1/responses`, {
      method: "POST",
      headers: keyHeaders("r1"),
      body: JSON.stringify({ model: "policy", input: "hi", max_output_tokens: 64 }),
    });
    expect(response.status).toBe(200);
    const [entry] = (await rollout.store.freeze("r1")).entries;
    expect(entry?.generation_log_probs.length).toBeGreaterThan(0);
    expect(entry?.generation_log_probs).toHaveLength(entry?.generation_token_ids.length ?? -1);
    expect(mock.calls.map(({ path }) => path)).not.toContain("/v1/responses");
  },
);

test.each(CHAT_ENGINES)(
  "%s: ids that a reasoning parser hid are an error, never an empty answer (https://github.com/vllm-project/vllm/pull/28256)",
  async (name) => {
    const mock = await startMock(name);
    const { engine } = await openForTest(name, engineClient([mock.url]));
    const rollout = await rolloutWith({ chatEngine: engine });
    mock.addFaults("missing_ids");
    expect((await rollout.call(userRequest("hi"))).status).toBe(529);
    expect((await rollout.store.freeze("r1")).entries).toEqual([]);
  },
);

test("fields that are unknown, or missing and not needed, reject no reply (https://github.com/PrimeIntellect-ai/verifiers/pull/1986, https://github.com/PrimeIntellect-ai/verifiers/pull/2019)", () => {
  const more = { service_tier: "scale-9", usage: { prompt_tokens_details: null }, x: [{}] };
  const read = { tokenIds: [5], logProbs: [-1], finishReason: "stop" };
  const choice = { token_ids: [5], finish_reason: "stop", logprobs: { token_logprobs: [-1] } };
  expect(vllmAnswer({ ...more, choices: [{ ...choice, ...more }] })).toEqual(read);
  const meta_info = { ...more, finish_reason: "stop", output_token_logprobs: [[-1, 5]] };
  expect(sglangAnswer({ ...more, meta_info })).toEqual({ ...read, weightVersion: undefined });
  const completion_probabilities = [{ id: 5, logprob: -1, ...more }];
  expect(
    llamaCppAnswer({ ...more, tokens: [5], stop_type: "eos", completion_probabilities }),
  ).toEqual(read);
});

test("an idle connection is closed here before a server does it in silence (https://github.com/rllm-org/rllm/pull/592, https://github.com/rllm-org/rllm/pull/505)", async () => {
  const server = createServer((request, response) =>
    request.resume().on("end", () => response.end("{}")),
  );
  server.keepAliveTimeout = 60_000;
  let closedByServer = false;
  const ended = new Promise<void>((resolve) => {
    server.on("connection", (socket) => {
      // Uvicorn's default. Both timers run in this process, so a busy machine delays both.
      socket.setTimeout(5000, () => {
        closedByServer = true;
        socket.destroy();
      });
      socket.once("close", () => resolve());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const client = engineClient([`http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  const { signal } = new AbortController();
  expect(await client.post("/x", {}, { signal })).toEqual({});
  await ended;
  expect(closedByServer).toBe(false);
});

test("an answer's own length and encoding never reach the harness (https://github.com/radixark/miles/pull/1004)", async () => {
  const mock = await startMock("vllm");
  const { engine } = await openForTest("vllm", engineClient([mock.url]));
  const rollout = await rolloutWith({ chatEngine: engine });
  const response = await rollout.call(userRequest("hi"));
  const body = await response.text();
  expect(response.headers.get("content-length")).toBe(String(Buffer.byteLength(body)));
  expect(response.headers.get("content-encoding")).toBeNull();
});
