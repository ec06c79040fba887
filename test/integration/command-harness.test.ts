/** Any command line as a harness, and what an isolated one can reach. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import type { AgentHarness, AgentHarnessOptions, HarnessRequest, Task } from "corral/actors";
import { agentHarness } from "corral/actors";
import { type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

let runtime: Runtime;
beforeAll(async () => {
  process.env["PLANTED_SECRET"] = "do-not-leak-me";
  runtime = await createRuntime({ logger: silent });
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

function request(fields: Partial<HarnessRequest> = {}, task: Partial<Task> = {}): HarnessRequest {
  return {
    rolloutId: "0-0",
    task: { _ng_task_index: 0, responses_create_params: { input: "Do it." }, ...task },
    baseUrl: "http://127.0.0.1:1/ng-rollout/0-0",
    apiKey: "key-of-the-rollout",
    model: "policy",
    timeoutMs: 30_000,
    maxTurns: 4,
    ...fields,
  };
}

type CommandOptions = Extract<AgentHarnessOptions, { kind: "command" }>;

async function spawnShell(
  script: string,
  options: Partial<CommandOptions> = {},
): Promise<ActorRef<AgentHarness>> {
  return runtime.spawn(
    agentHarness,
    { kind: "command", command: ["sh", "-c", script], tempRoot, ...options },
    { maxConcurrency: 4 },
  );
}

async function runShell(
  script: string,
  options: Partial<CommandOptions> = {},
  run: Parameters<typeof request> = [],
) {
  const harness = await spawnShell(script, options);
  const outcome = await harness.call.run(request(...run));
  await harness.stop();
  expect(fs.readdirSync(tempRoot).filter((name) => name.startsWith("corral-"))).toEqual([]);
  return outcome;
}

describe("a command", () => {
  test("is given its endpoint, key, prompt and directory; its output is the answer", async () => {
    const harness = await spawnShell("", {
      command: ["sh", "-c", 'echo "$0 $URL $KEY"; cat notes.txt; pwd', "{prompt}"],
      env: { URL: "{base_url}/v1", KEY: "{api_key}" },
    });
    const outcome = await harness.call.run(request({}, { files: { "notes.txt": "blue\n" } }));
    await harness.stop();
    expect(outcome).toMatchObject({ completed: true, exitCode: 0, failure: null });
    const [said, notes, directory] = (outcome.finalText ?? "").split("\n");
    expect(said).toBe("Do it. http://127.0.0.1:1/ng-rollout/0-0/v1 key-of-the-rollout");
    expect(notes).toBe("blue");
    expect(directory).toMatch(/\/corral-[0-9a-f]{12}\/w$/);
  });

  test("C1. gets no secret of ours, and as root is not root", async () => {
    const { finalText } = await runShell("env; id -u");
    expect(finalText).toContain("HOME=");
    expect(finalText).not.toContain("do-not-leak-me");
    expect(finalText?.split("\n").at(-1)).not.toBe("0");
  });

  test("that fails is a HARNESS_ERROR with the end of its standard error", async () => {
    expect(await runShell("echo half; echo broken >&2; exit 3")).toMatchObject({
      completed: false,
      finalText: null,
      exitCode: 3,
      stderrTail: "broken\n",
      failure: { code: "HARNESS_ERROR", message: "the command ended with exit code 3" },
    });
  });

  test("that is not there is named at start", async () => {
    await expect(spawnShell("", { command: ["no-such-program"] })).rejects.toThrow(
      'command "no-such-program" is no executable file and not on PATH',
    );
  });

  test.each(["none", "bwrap"] as const)(
    "a daemon that it leaves behind ends with it (isolation: %s)",
    async (isolation) => {
      if (isolation === "bwrap" && bwrapMissing !== null) return;
      // No other test's program has this name.
      const daemon = `sleep ${1_000_000 + process.pid}`;
      const script = `setsid sh -c "${daemon}" >/dev/null 2>&1 </dev/null & echo started; sleep 0.1; exit 0`;
      expect((await runShell(script, { isolation })).finalText).toBe("started");
      expect(processesNamed(daemon)).toEqual([]);
    },
  );
});

/** Null when bubblewrap works here; else why not. It is installed when it can be. */
const bwrapMissing = ((): string | null => {
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { stdio: "ignore", timeout: 60_000 });
  try {
    run("bwrap", "--version");
  } catch {
    try {
      run("apt-get", "install", "-y", "bubblewrap");
    } catch {
      return "bubblewrap is not installed and apt-get cannot install it";
    }
  }
  try {
    run("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true");
    return null;
  } catch {
    return "this machine allows no user namespaces";
  }
})();

function processesNamed(commandLine: string): string[] {
  return fs.readdirSync("/proc").filter((pid) => {
    try {
      const seen = fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim();
      return seen === commandLine;
    } catch {
      return false;
    }
  });
}

describe.skipIf(bwrapMissing !== null)(
  `isolation: bwrap${bwrapMissing === null ? "" : ` (skipped: ${bwrapMissing})`}`,
  () => {
    const bwrap = { isolation: "bwrap" } as const;

    test("I1. an isolated harness works in its directory and sees no run directory, task or other rollout", async () => {
      for (const name of ["run/capture.sqlite", "tasks.jsonl", "corral-0123456789ab/w/own.txt"]) {
        const file = path.join(tempRoot, name);
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, "secret", { mode: 0o644 });
      }
      const script = `cat in.txt; echo out > out.txt; cat out.txt; ls ${tempRoot} | wc -l; cat ${tempRoot}/run/capture.sqlite ${tempRoot}/tasks.jsonl ${tempRoot}/corral-0123456789ab/w/own.txt ${process.cwd()}/package.json 2>&1 | grep -c "No such file"; ls /proc | grep -c "^[0-9]"`;
      const harness = await spawnShell(script, bwrap);
      const outcome = await harness.call.run(request({}, { files: { "in.txt": "in\n" } }));
      await harness.stop();
      const [read, written, folders, missing, processes] = (outcome.finalText ?? "").split("\n");
      expect([read, written, folders, missing]).toEqual(["in", "out", "1", "4"]);
      expect(Number(processes)).toBeLessThan(8);
    });

    test("I2. the key is in no argument of any process", async () => {
      const harness = await spawnShell("", {
        ...bwrap,
        command: ["sh", "-c", "cat /proc/*/cmdline; echo; echo $KEY"],
        env: { KEY: "{api_key}" },
      });
      const outcome = await harness.call.run(request());
      await harness.stop();
      const lines = (outcome.finalText ?? "").split("\n");
      expect(lines.at(-1)).toBe("key-of-the-rollout");
      expect(lines.slice(0, -1).join()).not.toContain("key-of-the-rollout");
    });

    test("readable paths may be read and not written", async () => {
      const shared = path.join(tempRoot, "shared");
      fs.mkdirSync(shared, { mode: 0o777 });
      fs.writeFileSync(path.join(shared, "a.txt"), "shared\n");
      const script = `cat ${shared}/a.txt; echo x > ${shared}/b.txt || echo refused`;
      const { finalText } = await runShell(script, { ...bwrap, readable: [shared] });
      expect(finalText).toBe("shared\nrefused");
      expect(fs.readdirSync(shared)).toEqual(["a.txt"]);
    });

    test("I1. it dies with its parent", async () => {
      const program = `sleep ${2_000_000 + process.pid}`;
      const parent = spawn(
        process.execPath,
        [new URL("../fixtures/isolated-parent.mjs", import.meta.url).pathname, tempRoot, program],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      const lines = createInterface({ input: parent.stdout });
      await once(lines, "line");
      // The shell has said that it runs; its program may not have begun yet.
      while (processesNamed(program).length === 0) await new Promise(setImmediate);
      parent.kill("SIGKILL");
      await once(parent, "exit");
      while (processesNamed(program).length > 0) await new Promise(setImmediate);
    });
  },
);
