/** Who is refused, how, and what a refusal leaves behind: nothing. */
import { request as httpRequest } from "node:http";
import { describe, expect, test } from "vitest";
import { rolloutKey } from "../../src/actors/model-server/rollout-key.js";
import { temporaryStore } from "../support/capture.js";
import {
  keyHeaders,
  never,
  postMessages,
  ScriptedEngine,
  SECRET,
  startServer,
  storeCapture,
  userRequest,
} from "../support/model-server.js";

async function capturedRollout(
  parts: Parameters<typeof startServer>[0] = {},
  settings: Parameters<typeof startServer>[1] = {},
) {
  const { store } = temporaryStore();
  const engine = new ScriptedEngine();
  const running = await startServer({ engine, capture: storeCapture(store), ...parts }, settings);
  const { epoch } = await store.open("r1");
  running.server.openRollout({ rolloutId: "r1", epoch, captured: true });
  return { ...running, store, engine, headers: keyHeaders("r1", epoch), epoch };
}

async function refusal(response: Response): Promise<{ type: string; message: string }> {
  const body = (await response.json()) as {
    type: string;
    error: { type: string; message: string };
  };
  expect(body.type).toBe("error");
  return body.error;
}

/** Sends the path as it is: `fetch` would normalise it. */
function rawPost(url: string, path: string, headers: Record<string, string>): Promise<number> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const request = httpRequest({ hostname, port, path, method: "POST", headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    request.on("error", reject);
    request.end(JSON.stringify(userRequest("hi")));
  });
}

test("G1. a wrong or missing key, another rollout's key and an unopened rollout are 403; nothing is stored", async () => {
  const { server, base, store, epoch, url } = await capturedRollout();
  const other = await store.open("r2");
  server.openRollout({ rolloutId: "r2", epoch: other.epoch, captured: true });
  const refused: [string, Record<string, string>][] = [
    [base("r1"), { "x-api-key": "wrong" }],
    [base("r1"), {}],
    [base("r1"), { authorization: "Bearer wrong" }],
    [base("r1"), keyHeaders("r2", other.epoch)],
    [base("r1"), keyHeaders("r1", epoch + 1)],
    [base("r9"), keyHeaders("r9", epoch)],
    [`${url}/ng-rollout/r1`, keyHeaders("r1", epoch)],
  ];
  for (const [at, headers] of refused) {
    const response = await postMessages(at, userRequest("hi"), headers);
    expect(response.status).toBe(403);
    expect((await refusal(response)).type).toBe("permission_error");
  }
  const bearer = { authorization: `Bearer ${rolloutKey(SECRET, "r1", epoch)}` };
  expect((await postMessages(base("r1"), userRequest("hi"), bearer)).status).toBe(200);
  const { entries, incomplete } = await store.freeze("r1");
  expect([entries.length, incomplete]).toEqual([1, false]);
});

test("require_rollout_key: false lets an open rollout call without its key", async () => {
  const { base } = await capturedRollout({}, { requireRolloutKey: false });
  expect((await postMessages(base("r1"), userRequest("hi"), {})).status).toBe(200);
  expect((await postMessages(base("r9"), userRequest("hi"), {})).status).toBe(403);
});

test("L1. after seal a call is 403", async () => {
  const { base, server, headers } = await capturedRollout();
  await server.sealRollout("r1");
  const response = await postMessages(base("r1"), userRequest("hi"), headers);
  expect(response.status).toBe(403);
  expect((await refusal(response)).message).toContain("sealed");
});

test("P1. a malformed rollout id is 400, never rewritten", async () => {
  const { url, headers, engine } = await capturedRollout();
  const ids = [
    "..",
    "../x",
    "..%2Fx",
    "%2e%2e%2fx",
    "%72%31",
    "",
    "r".repeat(300),
    "-r",
    "r1%00",
    "%zz",
  ];
  for (const id of ids) {
    const path = `/ng-rollout/${id}/training-token-capture/v1/messages`;
    expect([id, await rawPost(url, path, headers)]).toEqual([id, 400]);
  }
  expect(engine.requests).toHaveLength(0);
});

test("the training segment on a server without capture names token_id_capture.enabled", async () => {
  const { server, base } = await startServer();
  server.openRollout({ rolloutId: "r1", epoch: 1, captured: false });
  const response = await postMessages(base("r1"), userRequest("hi"), keyHeaders("r1"));
  expect(response.status).toBe(400);
  expect((await refusal(response)).message).toContain("token_id_capture.enabled");
});

describe("a bad body is 400 and names its field", () => {
  const bodies: [string, unknown][] = [
    ["body", '{"model": "m", "messages": ['],
    ["body", "[]"],
    ["model", userRequest("x", { model: 7 })],
    ["messages", { model: "m" }],
    ["messages", { model: "m", messages: [] }],
    ["messages.0.role", { model: "m", messages: [{ role: "developer", content: "x" }] }],
    ["messages.0.content", { model: "m", messages: [{ role: "user", content: null }] }],
    [
      "messages.0.content.0.text",
      { model: "m", messages: [{ role: "user", content: [{ type: "text" }] }] },
    ],
    [
      "messages.0.content.0.tool_use_id",
      {
        model: "m",
        messages: [{ role: "user", content: [{ type: "tool_result", content: "x" }] }],
      },
    ],
    [
      "messages.0.content.0.content",
      {
        model: "m",
        messages: [
          { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: 3 }] },
        ],
      },
    ],
    [
      "messages.1.role",
      {
        model: "m",
        messages: [
          { role: "user", content: "x" },
          { role: "assistant", content: "y" },
        ],
      },
    ],
    ["stream", userRequest("x", { stream: "yes" })],
    ["max_tokens", userRequest("x", { max_tokens: 0 })],
    ["temperature", userRequest("x", { temperature: -1 })],
    ["tools", userRequest("x", { tools: {} })],
    ["tools.0.input_schema", userRequest("x", { tools: [{ name: "a", input_schema: "s" }] })],
    ["system", userRequest("x", { system: 4 })],
  ];
  test.each(bodies)("%s", async (field, body) => {
    const { base, headers, store } = await capturedRollout();
    const response = await postMessages(base("r1"), body, headers);
    expect(response.status).toBe(400);
    const { type, message } = await refusal(response);
    expect(type).toBe("invalid_request_error");
    expect(message.startsWith(`${field}:`)).toBe(true);
    const { entries, incomplete } = await store.freeze("r1");
    expect([entries.length, incomplete]).toEqual([0, false]);
  });
});

test("a refused retry leaves what is recorded as it was", async () => {
  const { base, headers, store } = await capturedRollout();
  await postMessages(base("r1"), userRequest("hi"), headers);
  const bad = await postMessages(base("r1"), userRequest("hi", { max_tokens: -1 }), headers);
  expect(bad.status).toBe(400);
  const { entries, incomplete } = await store.freeze("r1");
  expect([entries.length, incomplete]).toEqual([1, false]);
});

test("a body over the limit is 413", async () => {
  const { base, headers } = await capturedRollout({}, { limits: { maxBodyBytes: 1000 } });
  const response = await postMessages(base("r1"), userRequest("x".repeat(2000)), headers);
  expect(response.status).toBe(413);
  expect((await refusal(response)).message).toContain("maxBodyBytes");
});

test("S2. an unknown POST under the training prefix is 404 and marks the rollout; GET, HEAD and count_tokens do not", async () => {
  const { base, headers, server, store } = await capturedRollout();
  const at = (path: string, method: string) =>
    fetch(`${base("r1")}${path}`, {
      method,
      headers,
      ...(method === "POST" && { body: JSON.stringify(userRequest("hi")) }),
    });
  expect((await at("", "HEAD")).status).toBe(200);
  expect((await at("/api/hello", "GET")).status).toBe(404);
  expect((await at("/v1/models", "GET")).status).toBe(200);
  const counted = await at("/v1/messages/count_tokens", "POST");
  const answered = await at("/v1/messages", "POST");
  const { usage } = (await answered.json()) as { usage: { input_tokens: number } };
  expect(await counted.json()).toEqual({ input_tokens: usage.input_tokens });
  const stray = await fetch(`${base("r1")}/v1/embeddings`, { method: "POST", body: "{}" });
  expect(stray.status).toBe(403);
  expect((await server.sealRollout("r1")).captureLost).toBe(0);
  await store.open("r2");
  server.openRollout({ rolloutId: "r2", epoch: 2, captured: true });
  const unknown = await fetch(`${base("r2")}/v1/embeddings`, {
    method: "POST",
    headers: keyHeaders("r2", 2),
    body: "{}",
  });
  expect(unknown.status).toBe(404);
  expect((await refusal(unknown)).type).toBe("not_found_error");
  expect((await server.sealRollout("r2")).captureLost).toBe(1);
  expect((await store.freeze("r1")).incomplete).toBe(false);
  expect((await store.freeze("r2")).incomplete).toBe(true);
});

test("limits are 400 and say which: max_model_calls and maxInFlight", async () => {
  const engine = new ScriptedEngine(["ok<|im_end|>", never, never]);
  const { base, headers, server } = await capturedRollout(
    { engine },
    { maxModelCalls: 4, limits: { maxInFlight: 2, sealTimeoutMs: 0 } },
  );
  const call = () => postMessages(base("r1"), userRequest("hi"), headers);
  expect((await call()).status).toBe(200);
  const hanging = [call(), call()];
  await engine.asked(3);
  const crowded = await call();
  expect(crowded.status).toBe(400);
  expect((await refusal(crowded)).message).toContain("maxInFlight");
  await server.sealRollout("r1");
  expect((await Promise.all(hanging)).map((r) => r.status)).toEqual([403, 403]);

  const second = await capturedRollout({}, { maxModelCalls: 1 });
  const callSecond = () => postMessages(second.base("r1"), userRequest("hi"), second.headers);
  expect((await callSecond()).status).toBe(200);
  const spent = await callSecond();
  expect(spent.status).toBe(400);
  expect((await refusal(spent)).message).toContain("max_model_calls");
});

test("models and health are served under every prefix", async () => {
  const { url } = await startServer();
  for (const prefix of ["", "/ng-rollout/r1", "/ng-rollout/r1/training-token-capture"]) {
    expect(await (await fetch(`${url}${prefix}/health`)).json()).toEqual({ status: "ok" });
    const models = (await (await fetch(`${url}${prefix}/v1/models`)).json()) as {
      data: { id: string }[];
    };
    expect(models.data.map((model) => model.id)).toEqual(["policy"]);
    expect((await fetch(`${url}${prefix}`, { method: "HEAD" })).status).toBe(200);
    expect((await fetch(`${url}${prefix}/v1/nothing`)).status).toBe(404);
  }
});
