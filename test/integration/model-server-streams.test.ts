/** Streams of every dialect while the engine, the store or the client is slow. */
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { temporaryStore } from "../support/capture.js";
import { post, WIRE_DIALECTS, type WireDialect } from "../support/dialect-wire.js";
import { ManualClock } from "../support/manual-clock.js";
import {
  emitted,
  keyHeaders,
  never,
  ScriptedEngine,
  startServer,
  storeCapture,
} from "../support/model-server.js";

type Answers = ConstructorParameters<typeof ScriptedEngine>[0];

async function slowRollout(answers: Answers, sink: Parameters<typeof storeCapture>[1] = {}) {
  const { store } = temporaryStore();
  const clock = new ManualClock();
  const engine = new ScriptedEngine(answers);
  const capture = storeCapture(store, sink);
  const putTimeoutMs = 3210;
  const { server, base } = await startServer(
    { engine, capture, clock },
    { limits: { putTimeoutMs } },
  );
  const { epoch } = await store.open("r1");
  server.openRollout({ rolloutId: "r1", epoch, captured: true });
  const call = (dialect: WireDialect, body: unknown) =>
    post(base("r1"), dialect, body, keyHeaders("r1", epoch));
  /** The engine was asked, and the call's intent is on the disk. */
  const begun = async () => {
    await engine.asked(1);
    await clock.noTimerOf(putTimeoutMs);
  };
  return { store, clock, engine, server, base: base("r1"), call, begun };
}

/** An engine answer that the test gives. */
function given() {
  let give: (text: string) => void = () => undefined;
  let fail: (error: Error) => void = () => undefined;
  const text = new Promise<string>((resolve, reject) => {
    give = resolve;
    fail = reject;
  });
  return {
    answer: async () => ({ tokenIds: await emitted(await text) }),
    give: (value: string) => give(value),
    fail: (error: Error) => fail(error),
  };
}

/** What each dialect's clients count as a sign of life. */
const SIGN_OF_LIFE = {
  messages: /event: ping\n/g,
  chat: /^: keep-alive$/gm,
  responses: /event: response\.in_progress\n/g,
} as const;

const TERMINAL = {
  messages: "event: message_stop",
  chat: "data: [DONE]",
  responses: "event: response.completed",
} as const;

describe.each(Object.values(WIRE_DIALECTS))("$name", (dialect) => {
  const request = (more: object = {}) => dialect.request("policy", "go", { stream: true, ...more });

  test("X3. nothing is sent for 10 s; then the head and a sign of life every 5 s, while an engine takes 400 s", async () => {
    const { answer, give } = given();
    const { clock, call, begun } = await slowRollout([answer]);
    const answering = call(dialect, request());
    await begun();
    clock.advance(9999);
    let isAnswered = false;
    void answering.then(() => {
      isAnswered = true;
    });
    await nextTurn();
    expect(isAnswered).toBe(false);
    clock.advance(1);
    const response = await answering;
    for (let passed = 0; passed < 390_000; passed += 5000) {
      clock.advance(5000);
      await nextTurn();
    }
    give("slow<|im_end|>");
    const text = await response.text();
    const signs = text.match(SIGN_OF_LIFE[dialect.name])?.length ?? 0;
    expect(signs).toBe(79 + (dialect.name === "responses" ? 1 : 0));
    expect(JSON.stringify(dialect.read(text, true).raw)).toContain('"slow"');
  });

  test("X2. an engine that fails after the stream began ends it with the dialect's error, and nothing follows (https://github.com/NVIDIA-NeMo/Switchyard/pull/305)", async () => {
    const { answer, fail } = given();
    const { clock, call, server, begun } = await slowRollout([answer]);
    const answering = call(dialect, request());
    await begun();
    clock.advance(10_000);
    const response = await answering;
    fail(new Error("no memory"));
    const text = await response.text();
    const last = text.trim().split("\n\n").at(-1) ?? "";
    expect(last).toMatch(
      { messages: /^event: error/, chat: /^data: {"error"/, responses: /^event: response\.failed/ }[
        dialect.name
      ],
    );
    expect(last).toContain("no memory");
    expect(text).not.toContain(TERMINAL[dialect.name]);
    expect(await server.sealRollout("r1")).toMatchObject({ failed: 1, captureLost: 0 });
  });

  test("K1. no content is sent before the record is durable: a client that dies on the terminal event is frozen whole (https://github.com/PrimeIntellect-ai/verifiers/pull/1864)", async () => {
    let put: () => void = () => undefined;
    let isPut = false;
    const asked = new Promise<void>((resolve) => {
      put = resolve;
    });
    const { store, base } = await slowRollout(["read me<|im_end|>"], {
      put: async (entry) => {
        put();
        await nextTurn();
        await storeCapture(store).sink.put(entry);
        isPut = true;
      },
    });
    const socket = openStream(base, dialect, request());
    await asked;
    expect(socket.seen()).not.toContain("read me");
    await socket.until(TERMINAL[dialect.name]);
    socket.destroy();
    expect(isPut).toBe(true);
    const { entries, incomplete } = await store.freeze("r1");
    expect(entries.map((entry) => entry.served_text)).toEqual(["read me"]);
    expect(incomplete).toBe(false);
  });

  test("K3. a client that goes away cancels its engine call, which is recorded as aborted (https://github.com/vllm-project/vllm/issues/22197)", async () => {
    const { store, clock, engine, base, server, begun } = await slowRollout([never]);
    const socket = openStream(base, dialect, request());
    await begun();
    clock.advance(10_000);
    await socket.until("\r\n\r\n");
    const cancelled = abortOf(engine);
    socket.destroy();
    await cancelled;
    expect(await server.sealRollout("r1")).toMatchObject({ started: 1, aborted: 1 });
    expect(await store.freeze("r1")).toMatchObject({ entries: [], incomplete: false });
  });

  test("a reply that its client never read is served again to a shorter history, and stays out of the chain (https://github.com/radixark/miles/pull/1714)", async () => {
    const { store, call } = await slowRollout([
      "one<|im_end|>",
      "lost<|im_end|>",
      "two<|im_end|>",
      "three<|im_end|>",
    ]);
    const first = dialect.request("policy", "go");
    const one = dialect.read(await (await call(dialect, first)).text(), false);
    const second = dialect.next(first, one, "next");
    await (await call(dialect, second)).text();
    const two = dialect.read(await (await call(dialect, second)).text(), false);
    await (await call(dialect, dialect.next(second, two, "last"))).text();
    const { entries } = await store.freeze("r1");
    const by = (text: string) => entries.find((entry) => entry.served_text === text);
    expect(by("lost")?.parent_call_id).toBe(by("one")?.model_call_id);
    expect(by("two")?.parent_call_id).toBe(by("one")?.model_call_id);
    expect(by("three")?.parent_call_id).toBe(by("two")?.model_call_id);
  });
});

test("X4. a client that stops reading while the engine works is gone: its call is aborted", async () => {
  const { clock, engine, base, server, begun } = await slowRollout([never]);
  const dialect = WIRE_DIALECTS.responses;
  const body = dialect.request("policy", "go", { stream: true, metadata: BULK });
  const socket = openStream(base, dialect, body);
  await begun();
  const cancelled = abortOf(engine);
  clock.advance(10_000);
  socket.pause();
  let isCancelled = false;
  void cancelled.then(() => {
    isCancelled = true;
  });
  while (!isCancelled) {
    clock.advance(5000);
    await nextTurn();
  }
  socket.destroy();
  expect(await server.sealRollout("r1")).toMatchObject({ started: 1, aborted: 1 });
});

test("X4. a client that never reads a finished stream is cut off after 60 s; its record stays", async () => {
  const { store, clock, base } = await slowRollout(["whole<|im_end|>"]);
  const dialect = WIRE_DIALECTS.responses;
  const body = dialect.request("policy", "go", { stream: true, metadata: BULK });
  const socket = openStream(base, dialect, body);
  socket.pause();
  await clock.timerOf(60_000);
  clock.advance(60_000);
  socket.resume();
  await socket.closed;
  expect(socket.seen()).not.toContain("response.completed\n");
  expect((await store.freeze("r1")).entries).toHaveLength(1);
});

/** Every event of a response repeats what was asked; this fills what a connection can hold. */
const BULK = { text: "x".repeat(8_000_000) };

function abortOf(engine: ScriptedEngine): Promise<unknown> {
  const { signal } = engine.requests[0] as { signal: AbortSignal };
  return new Promise((resolve) => signal.addEventListener("abort", resolve));
}

/** A connection of our own: it can stop reading, and die without a word. */
function openStream(base: string, dialect: WireDialect, body: unknown) {
  const { port, pathname } = new URL(base + dialect.path);
  const text = JSON.stringify(body);
  const socket: Socket = connect(Number(port), "127.0.0.1");
  let seen = "";
  let wake: () => void = () => undefined;
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    seen += chunk.toString("utf8");
    wake();
  });
  const headers = { host: "x", "content-length": Buffer.byteLength(text), ...keyHeaders("r1") };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${pathname} HTTP/1.1\r\n${head.join("")}\r\n${text}`);
  return {
    seen: () => seen,
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    destroy: () => socket.destroy(),
    closed: new Promise<void>((resolve) => socket.once("close", () => resolve())),
    async until(part: string) {
      while (!seen.includes(part))
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    },
  };
}
