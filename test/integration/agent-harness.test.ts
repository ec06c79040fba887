import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import type { AgentHarness, AgentHarnessOptions, HarnessRequest, Task } from "corral/actors";
import { agentHarness } from "corral/actors";
import { type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { MessagesServer, type ScriptedReply } from "../support/messages-server.js";
import { isRoot, otherUserCanRun } from "../support/other-user.js";
import { isAlive } from "../support/processes.js";

const fixture = (file: string): string => new URL(`../fixtures/${file}`, import.meta.url).href;
const verifier = (exportName: string) => ({ module: fixture("verifiers.mjs"), exportName });

const warnings: string[] = [];
const logger = {
  debug() {},
  info() {},
  warn: (_: object, message: string) => void warnings.push(message),
  error() {},
};

let runtime: Runtime;
beforeAll(async () => {
  // A secret of ours: no harness may see it.
  process.env["PLANTED_SECRET"] = "do-not-leak-me";
  runtime = await createRuntime({ logger });
});
afterAll(async () => {
  await runtime.shutdown({ deadlineMs: 5000 });
});

let tempRoot: string;
beforeEach(() => {
  tempRoot = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
  fs.chmodSync(tempRoot, 0o755);
});
afterEach(() => fs.rmSync(tempRoot, { recursive: true, force: true }));

async function spawnHarness(options: AgentHarnessOptions): Promise<ActorRef<AgentHarness>> {
  return await runtime.spawn(
    agentHarness,
    { ...options, tempRoot },
    {
      maxConcurrency: 4,
    },
  );
}

const task = (fields: Partial<Task> = {}): Task => ({
  _ng_task_index: 0,
  responses_create_params: { input: [{ role: "user", content: "Do the task." }] },
  ...fields,
});

function request(baseUrl: string, fields: Partial<HarnessRequest> = {}): HarnessRequest {
  return {
    rolloutId: "0-0",
    task: task(),
    baseUrl: `${baseUrl}/ng-rollout/0-0/training-token-capture`,
    apiKey: "key-of-the-rollout",
    model: "policy",
    timeoutMs: 60_000,
    maxTurns: 4,
    ...fields,
  };
}

async function rollOut(script: readonly ScriptedReply[], fields: Partial<HarnessRequest> = {}) {
  await using server = await MessagesServer.listen(script);
  const harness = await spawnHarness({ kind: "claude_code", maxRetries: 0 });
  const outcome = await harness.call.run(request(server.url, fields));
  await harness.stop();
  return { outcome, server };
}

describe("Claude Code", () => {
  test("a completed run: task files, tool, final text, verified before the directory goes", async () => {
    const { outcome, server } = await rollOut([{ bash: "cp in.txt out.txt" }, { text: "copied" }], {
      task: task({
        files: { "in.txt": "blue" },
        verifier_params: { path: "out.txt", text: "blue" },
      }),
      verifier: verifier("fileEquals"),
    });
    expect(outcome).toMatchObject({
      completed: true,
      finalText: "copied",
      finalMessageId: "msg_2",
      reward: 1,
      failure: null,
      exitCode: 0,
    });
    expect(server.calls.map((call) => call.path.split("?")[0])).toEqual([
      "/ng-rollout/0-0/training-token-capture/v1/messages",
      "/ng-rollout/0-0/training-token-capture/v1/messages",
    ]);
    expect(server.calls[0]?.apiKey).toBe("key-of-the-rollout");
    const { tools, temperature, max_tokens: maxTokens, thinking } = server.calls[0]!.body;
    expect((tools as { name: string }[]).map((tool) => tool.name).sort()).toEqual([
      "Bash",
      "Edit",
      "Read",
      "Write",
    ]);
    expect({ temperature, maxTokens, thinking }).toEqual({
      temperature: 1,
      maxTokens: 1000,
      thinking: undefined,
    });
    expect(fs.readdirSync(tempRoot)).toEqual([]);
  });

  test("C1 C2 the harness sees nothing of our environment and is not root", async () => {
    const { server } = await rollOut([{ bash: "env; echo uid=$(id -u)" }, { text: "seen" }]);
    const seen = JSON.stringify(server.calls[1]?.body);
    expect(seen).toContain("ANTHROPIC_BASE_URL");
    expect(seen).not.toContain("PLANTED_SECRET");
    expect(seen).not.toContain("do-not-leak-me");
    // Where no other user can reach the CLI, root runs it, and says so at its start.
    expect(/uid=0\b/.test(seen)).toBe(isRoot && !otherUserCanRun);
  });

  test("an API error is a MODEL_ERROR", async () => {
    const { outcome } = await rollOut([{ status: 400, message: "scripted refusal" }], {
      verifier: verifier("one"),
    });
    expect(outcome).toMatchObject({
      completed: false,
      finalText: null,
      reward: 1,
      exitCode: 1,
      failure: {
        code: "MODEL_ERROR",
        message: expect.stringContaining("scripted refusal"),
        retryable: false,
      },
    });
  });

  test("max turns is a failure that is still verified", async () => {
    const { outcome } = await rollOut([{ bash: "echo blue > out.txt" }], {
      maxTurns: 2,
      task: task({ verifier_params: { path: "out.txt", text: "blue" } }),
      verifier: verifier("fileEquals"),
    });
    expect(outcome).toMatchObject({
      completed: false,
      finalText: null,
      finalMessageId: "msg_2",
      reward: 1,
      failure: { code: "MAX_TURNS", retryable: false },
    });
  });

  test("P3 at the deadline every process of the rollout ends, those in groups of their own too", async () => {
    const pidFile = path.join(tempRoot, "pids");
    fs.writeFileSync(pidFile, "");
    fs.chmodSync(pidFile, 0o666);
    const command = `setsid sleep 600 & echo $! >> ${pidFile}; (sleep 600; echo x) & echo $! >> ${pidFile}; exec sleep 600`;
    const endedAt = async (timeoutMs: number) => {
      fs.truncateSync(pidFile);
      const { outcome } = await rollOut([{ bash: command }, { hang: true }], {
        timeoutMs,
        verifier: verifier("one"),
      });
      const lines = fs.readFileSync(pidFile, "utf8").split("\n").filter(Boolean);
      return { outcome, pids: lines.map(Number) };
    };
    let ended = await endedAt(12_000);
    // On a busy machine the CLI had not come to its tool by then.
    if (ended.pids.length < 2) ended = await endedAt(60_000);
    const { outcome, pids } = ended;
    expect(outcome).toMatchObject({
      completed: false,
      reward: 1,
      failure: { code: "HARNESS_TIMEOUT" },
    });
    expect(pids).toHaveLength(2);
    for (const pid of pids) expect(isAlive(pid), `pid ${pid}`).toBe(false);
    expect(fs.readdirSync(tempRoot)).toEqual(["pids"]);
  });

  test("a prompt too long for an argument goes through standard input, whole", async () => {
    const text = `${"word ".repeat(25_000)}last`;
    const { outcome, server } = await rollOut([{ text: "read" }], {
      task: task({ responses_create_params: { input: text } }),
    });
    expect(outcome.completed).toBe(true);
    expect(JSON.stringify(server.calls[0]?.body)).toContain(text);
  });

  test("H4 what the CLI and its tools put aside lies in the rollout's directory and goes with it", async () => {
    const aside = () => fs.readdirSync("/tmp").filter((name) => name.startsWith("claude"));
    const before = aside();
    const { outcome, server } = await rollOut([
      { bash: 'mktemp; ls -d "$CLAUDE_CODE_TMPDIR"/claude-*' },
      { text: "done" },
    ]);
    expect(outcome).toMatchObject({ completed: true });
    const told = JSON.stringify(server.calls[1]?.body["messages"]);
    const below = `${tempRoot}/corral-[0-9a-f]+/t/`;
    expect(told).toMatch(new RegExp(`${below}[^"]*tmp\\.`));
    expect(told).toMatch(new RegExp(`${below}claude-`));
    expect(aside()).toEqual(before);
    expect(fs.readdirSync(tempRoot)).toEqual([]);
  });

  test("a harness that writes without end is stopped", async () => {
    await using server = await MessagesServer.listen([{ text: "x".repeat(5000) }]);
    const harness = await spawnHarness({ kind: "claude_code", maxOutputBytes: 3000 });
    const outcome = await harness.call.run(request(server.url));
    expect(outcome.failure).toEqual({
      code: "HARNESS_ERROR",
      message: "wrote more than 3000 bytes",
      retryable: false,
    });
    await harness.stop();
  });

  test("cancelAll ends what runs as CANCELLED and leaves the actor usable", async () => {
    await using server = await MessagesServer.listen([{ hang: true }, { text: "later" }]);
    const harness = await spawnHarness({ kind: "claude_code" });
    const called = server.nextCall();
    const cancelled = harness.call.run(request(server.url, { verifier: verifier("one") }));
    await called;
    await harness.call.cancelAll();
    expect(await cancelled).toMatchObject({ reward: null, failure: { code: "CANCELLED" } });
    expect(await harness.call.run(request(server.url))).toMatchObject({ finalText: "later" });
    await harness.stop();
  });

  test("H2 a file outside the directory is refused before anything runs", async () => {
    const { outcome, server } = await rollOut([{ text: "never" }], {
      task: task({ files: { "../x": "1" } }),
    });
    expect(outcome.failure).toEqual({
      code: "HARNESS_ERROR",
      message: expect.stringContaining('"../x"'),
      retryable: false,
    });
    expect(server.calls).toEqual([]);
  });

  test.runIf(process.getuid?.() === 0)(
    "C2 a CLI that only root can run is run by root, and said so; another version too",
    async () => {
      const locked = path.join(tempRoot, "locked");
      fs.mkdirSync(locked, { mode: 0o700 });
      const binary = path.join(locked, "claude");
      const real = path.resolve("node_modules/.bin/claude");
      const version = '[ "$1" = --version ] && echo "9.9.9 (Claude Code)" && exit';
      fs.writeFileSync(binary, `#!/bin/sh\n${version}\nexec "${real}" "$@"\n`, { mode: 0o755 });
      warnings.length = 0;
      await using server = await MessagesServer.listen([
        { bash: "echo uid=$(id -u)" },
        { text: "done" },
      ]);
      const harness = await spawnHarness({ kind: "claude_code", binary });
      expect(await harness.call.run(request(server.url))).toMatchObject({ completed: true });
      await harness.stop();
      expect(JSON.stringify(server.calls[1]?.body)).toContain("uid=0");
      expect(warnings).toEqual([
        "harnesses run as root: uid 65534 cannot run the CLI",
        "Claude Code is not 2.1.197 or 2.1.332, the version tested",
      ]);
    },
  );

  test("a CLI that is not there says how to install it", async () => {
    await expect(spawnHarness({ kind: "claude_code", binary: "/nowhere/claude" })).rejects.toThrow(
      "npm install --save-dev @anthropic-ai/claude-code@2.1.197",
    );
    expect(fs.readdirSync(tempRoot)).toEqual([]);
  });
});

describe("a function", () => {
  const start = (exportName: string) =>
    spawnHarness({ kind: "function", module: fixture("function-harnesses.mjs"), exportName });

  async function call(exportName: string, fields: Partial<HarnessRequest> = {}) {
    const harness = await start(exportName);
    const outcome = await harness.call.run(request("http://127.0.0.1:1", fields));
    await harness.stop();
    expect(fs.readdirSync(tempRoot)).toEqual([]);
    return outcome;
  }

  test("answers, with the endpoint, in its directory", async () => {
    const seen = {
      baseUrl: request("http://127.0.0.1:1").baseUrl,
      apiKey: "key-of-the-rollout",
      model: "policy",
    };
    const outcome = await call("answers", {
      task: task({ verifier_params: { path: "seen.json", text: JSON.stringify(seen) } }),
      verifier: verifier("fileEquals"),
    });
    expect(outcome).toMatchObject({
      completed: true,
      finalText: "echo: Do the task.",
      finalMessageId: "msg_f",
      reward: 1,
    });
  });

  test("may answer with plain text", async () => {
    expect(await call("plain")).toMatchObject({
      finalText: "Do the task.",
      finalMessageId: null,
      reward: null,
    });
  });

  test("H1 a throw and a wrong answer are HARNESS_ERROR", async () => {
    expect((await call("throws")).failure).toEqual({
      code: "HARNESS_ERROR",
      message: "the function broke",
      retryable: true,
    });
    expect((await call("wrongAnswer")).failure).toMatchObject({ code: "HARNESS_ERROR" });
  });

  test.each(["untilAborted", "never"])("F1 %s ends at the deadline", async (exportName) => {
    expect(await call(exportName, { timeoutMs: 50 })).toMatchObject({
      completed: false,
      finalText: null,
      failure: { code: "HARNESS_TIMEOUT" },
    });
  });

  test.each(["throws", "notFinite", "missing"])(
    "H1 a verifier that %s is a VERIFIER_ERROR without a reward",
    async (name) => {
      expect(await call("plain", { verifier: verifier(name) })).toMatchObject({
        completed: true,
        finalText: "Do the task.",
        reward: null,
        failure: { code: "VERIFIER_ERROR" },
      });
    },
  );

  test("H3 a verifier gets the final text and its parameters", async () => {
    const fields = {
      task: task({ verifier_params: { text: "Do the task." } }),
      verifier: verifier("seen"),
    };
    expect((await call("plain", fields)).reward).toBe(1);
  });

  test("a module that cannot be used is refused at start", async () => {
    await expect(start("notAFunction")).rejects.toThrow("is not a function");
  });
});
