/** The walkthroughs for real nodes, their own commands run against the mock engine. */
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

/** Arguments of every `npx corral` command of the README's shell blocks, in order. */
function corralCommands(readme: string): string[][] {
  const blocks = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block ?? "");
  return blocks
    .join("\n")
    .replace(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.startsWith("npx corral "))
    .map((line) => line.split(/\s+/).slice(2));
}

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

test.each(["vllm", "sglang"])(
  "examples/%s: mock engine, doctor, run and verify as its README says",
  async (name) => {
    const cwd = exampleFolder(name);
    const commands = corralCommands(readFileSync(path.join(cwd, "README.md"), "utf8"));
    expect(commands.map(([command]) => command)).toEqual([
      "mock-engine",
      "doctor",
      "run",
      "verify",
    ]);
    const port = await freePort();
    const env = { MODEL_DIR: modelDirectory("qwen3"), ENGINE_URL: `http://127.0.0.1:${port}` };
    const [mock, ...rest] = commands as [string[], ...string[][]];
    const engine = startCorral(
      mock.map((argument, at) => (mock[at - 1] === "--port" ? port : argument)),
      { cwd, env },
    );
    onTestFinished(() => void engine.child.kill());
    await new Promise<void>((resolve, reject) => {
      engine.child.stdout?.once("data", () => resolve());
      void engine.result.then(({ stderr }) => reject(new Error(stderr)));
    });
    for (const command of rest) {
      const result = await runCorral(command, { cwd, env });
      expect(result, `${command.join(" ")}: ${result.stdout}${result.stderr}`).toMatchObject({
        code: 0,
      });
      expect(result.stderr).not.toContain("log probabilities are raw");
    }
    const rows = readFileSync(path.join(cwd, "out/rollouts.jsonl"), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Row);
    expect(rows).toHaveLength(4);
    for (const { mask_sample, _ng_token_capture: metrics, response } of rows) {
      expect(mask_sample).toBeUndefined();
      expect(metrics.n_calls).toBeGreaterThan(0);
      expect(metrics.delivered_fraction).toBe(1);
      const modes = response.output.flatMap((item) => item.logprobs_mode ?? []);
      expect(new Set(modes)).toEqual(new Set(["processed"]));
    }
    engine.child.kill("SIGTERM");
    expect((await engine.result).code).toBe(0);
  },
);
