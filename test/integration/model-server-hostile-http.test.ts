/** HTTP that no well-behaved client sends: answered or refused, never a crash, a hang, a 500 or a hole unmasked. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { RolloutLedger } from "../../src/actors/rollout.js";
import { finalizeRolloutTokenCapture } from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import { parseEvents, readMessage } from "../support/messages-stream.js";
import {
  keyHeaders,
  never,
  postMessages,
  ScriptedEngine,
  startServer,
  storeCapture,
  userRequest,
} from "../support/model-server.js";
import { exchangeRaw, openSocket, rawRequest } from "../support/raw-http.js";

async function openRollout(
  engine = new ScriptedEngine(),
  settings: Parameters<typeof startServer>[1] = {},
) {
  const { store } = temporaryStore();
  const running = await startServer({ engine, capture: storeCapture(store) }, settings);
  const { epoch } = await store.open("r1");
  running.server.openRollout({ rolloutId: "r1", epoch, captured: true });
  const headers = keyHeaders("r1", epoch);
  const raw = (path: string, body: string | Buffer, more: Record<string, string> = {}) =>
    rawRequest(
      "POST",
      `/ng-rollout/r1/training-token-capture${path}`,
      { ...headers, ...more },
      body,
    );
  const call = (body: unknown, more = {}) => postMessages(running.base("r1"), body, headers, more);
  /** Ends the rollout as the consumer does; the second row proves that the answer to `seal` is what masks. */
  const finish = async (): Promise<{ ledger: RolloutLedger; masked: boolean; calls: number }> => {
    const ledger = await running.server.sealRollout("r1");
    const row = { _ng_rollout_id: "r1", response: { output: [] } };
    const { masked, snapshot } = await finalizeRolloutTokenCapture(row, store, {
      ledgers: [ledger],
    });
    return { ledger, masked, calls: snapshot?.entries.length ?? 0 };
  };
  return { ...running, store, engine, headers, raw, call, finish };
}

const HI = JSON.stringify(userRequest("hi"));
const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
const withMessages = (more: string) =>
  `{"model":"m",${more}"messages":[{"role":"user","content":"hi"}]}`;

describe("S1. one bad request is refused in the dialect's shape and leaves the rollout as it was:", () => {
  const refused: [string, number, string | Buffer, Record<string, string>?][] = [
    ["an empty body", 400, ""],
    ["half a body", 400, '{"model":'],
    ["a byte order mark", 400, `\ufeff${HI}`],
    ["a body that was compressed", 400, gzipSync(HI), { "content-encoding": "gzip" }],
    ["no content type", 400, HI, { "content-type": "" }],
    ["a content type that is none", 400, HI, { "content-type": "garbage" }],
    ["a limit that is no number", 400, withMessages('"max_tokens":1e999,')],
    ["a null message", 400, '{"model":"m","messages":[null]}'],
    [
      "a schema too deep to render",
      400,
      withMessages(`"tools":[{"name":"a","input_schema":${nested(50_000)}}],`),
    ],
    ["65 MiB", 413, Buffer.alloc(65 * 1024 * 1024, " ")],
  ];
  test.each(refused)("%s", async (_what, status, body, headers) => {
    const { url, raw, call, finish } = await openRollout();
    const [response] = await exchangeRaw(url, raw("/v1/messages", body, headers));
    expect(response?.status).toBe(status);
    expect(JSON.parse(response?.body ?? "")).toMatchObject({
      type: "error",
      error: { type: expect.any(String), message: expect.any(String) },
    });
    expect((await call(HI)).status).toBe(200);
    expect(await finish()).toMatchObject({ masked: false, calls: 1 });
  });

  test("an unknown method, and a target that is no path", async () => {
    const { url, headers } = await openRollout();
    for (const [method, target] of [
      ["PROPFIND", "/v1/messages"],
      ["OPTIONS", "*"],
      ["GET", "/%zz"],
      ["PUT", "/ng-rollout/r1/training-token-capture/v1/messages"],
    ] as const) {
      const [response] = await exchangeRaw(url, rawRequest(method, target, headers));
      expect([method, response?.status]).toEqual([method, 404]);
      expect(JSON.parse(response?.body ?? "")).toMatchObject({
        error: { type: "not_found_error" },
      });
    }
  });
});

describe("an odd request that can be read is served, and its record is sound:", () => {
  const served: [string, string | Buffer, Record<string, string>?][] = [
    ["another content type", HI, { "content-type": "text/plain" }],
    ["Expect: 100-continue", HI, { expect: "100-continue" }],
    [
      "chunks",
      `${HI.length.toString(16)}\r\n${HI}\r\n0\r\n\r\n`,
      { "transfer-encoding": "chunked" },
    ],
    [
      "depth in an unknown field",
      withMessages(`"x":${"[".repeat(200_000)}${"]".repeat(200_000)},`),
    ],
    ["a lone surrogate", '{"model":"m\\ud800","messages":[{"role":"user","content":"\\ud800 x"}]}'],
    ["bytes that are no UTF-8", Buffer.from(HI.replace("hi", "\xff\xfe\xc0"), "latin1")],
    [
      "keys given twice",
      '{"model":"m","messages":[],"messages":[{"role":"user","content":"a","content":"b"}]}',
    ],
    [
      "names of Object.prototype",
      `{"model":"m","__proto__":{"stream":true},"tools":[{"name":"__proto__","input_schema":{"__proto__":{},"constructor":1}}],
       "messages":[{"role":"user","content":[{"type":"text","text":"a","__proto__":{}}]}]}`,
    ],
    ["a huge temperature", withMessages('"temperature":1e308,')],
    ["an empty message", '{"model":"m","messages":[{"role":"user","content":[]}]}'],
  ];
  test.each(served)("%s", async (_what, body, headers) => {
    const { url, raw, finish } = await openRollout();
    const [response] = await exchangeRaw(url, raw("/v1/messages", body, headers));
    expect(response?.status).toBe(200);
    expect(await finish()).toMatchObject({ masked: false, calls: 1 });
  });

  test("a whole URL as target, as behind a proxy", async () => {
    const { url, headers, finish } = await openRollout();
    const target = `${url}/ng-rollout/r1/training-token-capture/v1/messages`;
    const [response] = await exchangeRaw(url, rawRequest("POST", target, headers, HI));
    expect(response?.status).toBe(200);
    expect(await finish()).toMatchObject({ masked: false, calls: 1 });
  });
});

describe("S2. a POST that is no operation masks, whatever is wrong with it besides:", () => {
  const unknown: [string, string, (string | Buffer)?, Record<string, string>?][] = [
    ["an unknown path", "/v1/complete", HI],
    ["a slash too many", "//v1/messages", HI],
    ["a slash at the end", "/v1/messages/", HI],
    ["another case", "/V1/messages", HI],
    ["an escaped slash", "/v1%2Fmessages", HI],
    ["an escape that is none", "/v1/%zz", HI],
    ["no body", "/v1/complete"],
    ["no content type", "/v1/complete", HI, { "content-type": "" }],
    ["a content type that is none", "/v1/complete", HI, { "content-type": "garbage" }],
    ["a body over the limit", "/v1/complete", Buffer.alloc(65 * 1024 * 1024, " ")],
  ];
  test.each(unknown)("%s", async (_what, path, body = "", headers = {}) => {
    const { url, raw, call, finish } = await openRollout();
    expect((await call(HI)).status).toBe(200);
    const [response] = await exchangeRaw(url, raw(path, body, headers));
    expect(response?.status).toBe(404);
    const { masked, ledger } = await finish();
    expect([masked, ledger.captureLost]).toEqual([true, 1]);
  });

  test("whole URL or not; but never with a wrong key", async () => {
    const { url, raw, headers, call, finish } = await openRollout();
    expect((await call(HI)).status).toBe(200);
    const wrong = { "x-api-key": "wrong" };
    const [refused] = await exchangeRaw(url, raw("/v1/complete", HI, wrong));
    expect(refused?.status).toBe(403);
    const target = `${url}/ng-rollout/r1/training-token-capture/v1/complete`;
    const absolute = rawRequest("POST", target, headers, HI);
    expect((await exchangeRaw(url, absolute))[0]?.status).toBe(404);
    expect((await finish()).ledger.captureLost).toBe(1);
  });

  test.each(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])("%s does not", async (method) => {
    const { url, headers, call, finish } = await openRollout();
    expect((await call(HI)).status).toBe(200);
    const target = "/ng-rollout/r1/training-token-capture/v1/complete";
    const request = rawRequest(method, target, headers);
    if (method === "HEAD") await fetch(`${url}${target}`, { method, headers });
    else await exchangeRaw(url, request);
    expect(await finish()).toMatchObject({ masked: false, calls: 1 });
  });
});

describe("connections", () => {
  test("pipelined calls are answered in order, each recorded", async () => {
    const engine = new ScriptedEngine(["one<|im_end|>", "two<|im_end|>", "three<|im_end|>"]);
    const { url, raw, finish } = await openRollout(engine);
    const calls = ["a", "b", "c"].map((text) =>
      raw("/v1/messages", JSON.stringify(userRequest(text))),
    );
    const responses = await exchangeRaw(url, Buffer.concat(calls), 3);
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    // Three roots: no one chain.
    expect(await finish()).toMatchObject({ masked: true, calls: 3 });
  });

  test("a socket that drops while it sends its body is no call", async () => {
    const { url, raw, call, finish } = await openRollout();
    const request = raw("/v1/messages", HI);
    for (const part of [1, 40, request.length - 5]) {
      const socket = await openSocket(url);
      await new Promise((resolve) => socket.write(request.subarray(0, part), resolve));
      socket.destroy();
    }
    expect((await call(HI)).status).toBe(200);
    expect(await finish()).toMatchObject({
      masked: false,
      calls: 1,
      ledger: { started: 1, aborted: 0 },
    });
  });

  test("a socket that drops while the engine works is an aborted call, and no hole", async () => {
    const engine = new ScriptedEngine([never]);
    const { url, raw, call, finish } = await openRollout(engine);
    const socket = await openSocket(url);
    socket.write(raw("/v1/messages", HI));
    await engine.asked(1);
    const { signal } = engine.requests[0] as { signal: AbortSignal };
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    socket.resetAndDestroy();
    await aborted;
    expect((await call(HI)).status).toBe(200);
    expect(await finish()).toMatchObject({
      masked: false,
      calls: 1,
      ledger: { started: 2, aborted: 1 },
    });
  });

  test("a socket that drops with its answer unread keeps the record; a retry without a sequel masks", async () => {
    const { url, raw, call, finish } = await openRollout();
    const socket = await openSocket(url);
    const stream = JSON.stringify(userRequest("hi", { stream: true }));
    socket.write(raw("/v1/messages", stream));
    await new Promise((resolve) => socket.once("readable", resolve));
    socket.resetAndDestroy();
    expect((await call(stream)).status).toBe(200);
    expect(await finish()).toMatchObject({ masked: true, calls: 2 });
  });

  test.each([0, 1])(
    "of one call sent twice at once, answer %i that is continued is the chain",
    async (kept) => {
      const engine = new ScriptedEngine(["hello<|im_end|>", "one<|im_end|>", "two<|im_end|>"]);
      const { call, finish } = await openRollout(engine);
      const messages: object[] = [{ role: "user", content: "hi" }];
      const send = async () => {
        const response = await call(userRequest("", { messages }));
        return ((await response.json()) as { content: object[] }).content;
      };
      messages.push(
        { role: "assistant", content: await send() },
        { role: "user", content: "more" },
      );
      const twice = await Promise.all([send(), send()]);
      messages.push({ role: "assistant", content: twice[kept] }, { role: "user", content: "end" });
      await send();
      expect(await finish()).toMatchObject({ masked: false, calls: 4 });
    },
  );

  test("a client that never reads holds up neither seal nor others", async () => {
    const long = `${"word ".repeat(40_000)}<|im_end|>`;
    const { url, raw, call, server } = await openRollout(new ScriptedEngine([long, long, long]));
    const socket = await openSocket(url);
    socket.pause();
    const stream = JSON.stringify(userRequest("hi", { stream: true }));
    socket.write(Buffer.concat([raw("/v1/messages", stream), raw("/v1/messages", stream)]));
    const message = readMessage(parseEvents(await (await call(stream)).text()));
    expect(message.usage.output_tokens).toBeGreaterThan(40_000);
    expect((await server.sealRollout("r1")).captureLost).toBe(0);
    socket.destroy();
  });

  test("100 calls at once: those above the limit are 400, every other one is recorded", async () => {
    const { call, finish } = await openRollout();
    const responses = await Promise.all(
      Array.from({ length: 100 }, () => call(userRequest("hi", { stream: true }))),
    );
    const bodies = await Promise.all(
      responses.map(async (response) => ({ status: response.status, text: await response.text() })),
    );
    const answered = bodies.filter(({ status }) => status === 200);
    for (const { text } of answered) readMessage(parseEvents(text));
    for (const { status, text } of bodies)
      if (status !== 200)
        expect([status, text]).toEqual([400, expect.stringContaining("maxInFlight")]);
    const { ledger, calls } = await finish();
    expect(answered.length).toBeGreaterThanOrEqual(32);
    expect([ledger.started, ledger.recordedCallIds.length, calls]).toEqual(
      Array(3).fill(answered.length),
    );
  });
});
