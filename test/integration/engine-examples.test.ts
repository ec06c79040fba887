/** The walkthroughs for real nodes, their own commands run against the mock engine. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { runCorral, startCorral } from "../support/corral-cli.js";
import { modelDirectory } from "../support/families.js";

const examples = fileURLToPath(new URL("../../examples", import.meta.url));

/** A copy of the examples, so that results never land in the tree. */
function exampleFolder(name: string): string {
  const folder = mkdtempSync(path.join(tmpdir(), "corral-example-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(examples, folder, { recursive: true });
  // The verifiers import this package by its name.
  mkdirSync(path.join(folder, "node_modules"));
  symlinkSync(path.dirname(examples), path.join(folder, "node_modules/corral"));
  return path.join(folder, name);
}

/** The commands of the README's shell blocks that are run here, in order. */
function commandsOf(readme: string): string[] {
  const blocks = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block ?? "");
  return blocks
    .join("\n")
    .replace(/\\\n/g, " ")
    .split("\n")
    .filter((line) => /^(npx corral|jq) /.test(line));
}

const argumentsOf = (command: string) => command.split(/\s+/).slice(2);

async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

interface Row {
  readonly mask_sample?: true;
  readonly _ng_token_capture: { readonly n_calls: number; readonly delivered_fraction: number };
  readonly response: { readonly output: readonly { readonly logprobs_mode?: string }[] };
}

function rowsOf(file: string): Row[] {
  return readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);
}

function checkRows(rows: readonly Row[]): void {
  expect(rows).toHaveLength(4);
  for (const { mask_sample, _ng_token_capture: metrics, response } of rows) {
    expect(mask_sample).toBeUndefined();
    expect(metrics.n_calls).toBeGreaterThan(0);
    expect(metrics.delivered_fraction).toBe(1);
    const modes = response.output.flatMap((item) => item.logprobs_mode ?? []);
    expect(new Set(modes)).toEqual(new Set(["processed"]));
  }
}

/** Starts a command that runs until it is stopped; its first line, and how to stop it. */
async function background(args: string[], options: Parameters<typeof startCorral>[1]) {
  const { child, result } = startCorral(args, options);
  onTestFinished(() => void child.kill());
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout?.once("data", (chunk: Buffer) => resolve(String(chunk).trim()));
    void result.then(({ stderr }) => reject(new Error(stderr)));
  });
  const stop = async () => {
    child.kill("SIGTERM");
    expect((await result).code).toBe(0);
  };
  return { line, stop };
}

const has = (program: string) => spawnSync(program, ["--version"]).error === undefined;
const hasJq = has("jq");
const FILTER = "'{m: ._ng_token_capture, mask: .mask_sample}'";

/** The README's filter by `jq` itself where the machine has it; its meaning is checked either way. */
function checkJq(command: string, cwd: string): void {
  const [, filter, file] = /^jq ('.*') (\S+)$/.exec(command) ?? [];
  expect(filter).toBe(FILTER);
  const wanted = rowsOf(path.join(cwd, file ?? "")).map((row) => ({
    m: row._ng_token_capture,
    mask: row.mask_sample ?? null,
  }));
  for (const { m, mask } of wanted)
    expect({ n: m.n_calls > 0, mask }).toEqual({ n: true, mask: null });
  if (!hasJq) return;
  const { stdout } = spawnSync("sh", ["-c", command], { cwd, encoding: "utf8" });
  const shown = stdout.trim().split(/(?<=^\})\n/m);
  expect(shown.map((text) => JSON.parse(text) as unknown)).toEqual(wanted);
}

/** Eight commands, each of which starts the harness's CLI or a whole run. */
const WALKTHROUGH_TIMEOUT_MS = 360_000;

const isolation = has("bwrap") ? "bwrap" : "none";
const missing = [...(hasJq ? [] : ["jq"]), ...(isolation === "bwrap" ? [] : ["bwrap"])];

test.each(["vllm", "sglang"])(
  `examples/%s: every command of its README, in order${missing.length === 0 ? "" : ` (without ${missing.join(" and ")}: not installed)`}`,
  async (name) => {
    const cwd = exampleFolder(name);
    const commands = commandsOf(readFileSync(path.join(cwd, "README.md"), "utf8"));
    expect(commands.map((command) => command.replace(/^npx corral /, "").split(" ")[0])).toEqual([
      ...["mock-engine", "doctor", "run", "jq", "verify"],
      ...["serve", "run", "jq"],
    ]);
    const port = await freePort();
    const env: NodeJS.ProcessEnv = {
      MODEL_DIR: modelDirectory("qwen3"),
      ENGINE_URL: `http://127.0.0.1:${port}`,
      ISOLATION: isolation,
    };
    let serverUrl = "";
    const stops: (() => Promise<void>)[] = [];
    for (const command of commands) {
      if (command.startsWith("jq ")) {
        checkJq(command, cwd);
        continue;
      }
      const args = argumentsOf(command.replace("$CORRAL_URL", serverUrl));
      if (args[0] === "mock-engine") {
        const own = args.map((argument, at) => (args[at - 1] === "--port" ? port : argument));
        stops.push((await background(own, { cwd, env })).stop);
        continue;
      }
      if (args[0] === "serve") {
        const { line, stop } = await background(args, { cwd, env });
        serverUrl = line;
        stops.push(stop);
        continue;
      }
      const result = await runCorral(args, { cwd, env });
      expect(result, `${command}: ${result.stdout}${result.stderr}`).toMatchObject({ code: 0 });
      expect(result.stderr).not.toContain("log probabilities are raw");
    }
    checkRows(rowsOf(path.join(cwd, "out/rollouts.jsonl")));
    checkRows(rowsOf(path.join(cwd, "out/apart.jsonl")));
    for (const stop of stops.reverse()) await stop();
  },
  WALKTHROUGH_TIMEOUT_MS,
);
