/** What an import of the capture layer loads, seen from inside a fresh process. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
const fixture = fileURLToPath(new URL("../fixtures/loaded-modules.mjs", import.meta.url));

/** Names of the packages, and the builtins, that a fresh process loads for these imports. */
function loadedBy(...specifiers: string[]): { packages: Set<string>; builtins: Set<string> } {
  const coverage = mkdtempSync(join(tmpdir(), "corral-leaf-"));
  try {
    // The coverage report of V8 lists every script, ES modules too; the module cache has only CommonJS.
    const output = execFileSync(process.execPath, [fixture, ...specifiers], {
      encoding: "utf8",
      env: { ...process.env, NODE_V8_COVERAGE: coverage },
    });
    const { builtin, commonJs } = JSON.parse(output) as { builtin: string[]; commonJs: string[] };
    const reports = readdirSync(coverage).map((name) => readFileSync(join(coverage, name), "utf8"));
    const scripts = reports.flatMap((report) =>
      (JSON.parse(report) as { result: { url: string }[] }).result.map(({ url }) => url),
    );
    const packages = [...scripts, ...commonJs].flatMap((path) => {
      const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1];
      return name === undefined ? [] : [name];
    });
    const builtins = builtin.map((name) => name.replace(/^(NativeModule|Internal Binding) /, ""));
    return { packages: new Set(packages), builtins: new Set(builtins) };
  } finally {
    rmSync(coverage, { recursive: true, force: true });
  }
}

const FOREIGN = ["fastify", "undici", "comlink", "piscina", "pino", "tokenizers"];
const FOREIGN_BUILTINS = ["http", "http2", "https", "net", "worker_threads"];

test("the probe sees ES modules, CommonJS modules and builtins", () => {
  expect([...loadedBy("comlink").packages]).toContain("comlink");
  expect([...loadedBy("fastify").packages]).toContain("fastify");
  expect([...loadedBy("fastify").builtins]).toContain("http");
  expect([...loadedBy("node:worker_threads").builtins]).toContain("worker_threads");
});

test("corral/capture loads its store and nothing of the server, the runtime or the tokenizer", () => {
  const { packages, builtins } = loadedBy("corral/capture");
  expect([...packages]).toContain("better-sqlite3");
  for (const name of FOREIGN) expect([...packages]).not.toContain(name);
  for (const name of FOREIGN_BUILTINS) expect([...builtins]).not.toContain(name);
});

test("every other module of the layer, contracts and delivery among them, loads no SQLite", () => {
  const layer = join(dist, "capture");
  const opening = ["index.js", "run-lock.js", "schema.js", "store-reserve.js", "store.js"];
  const others = readdirSync(layer).filter(
    (name) => name.endsWith(".js") && !opening.includes(name),
  );
  expect(others).toContain("contracts.js");
  expect(others).toContain("store-sink.js");
  const { packages } = loadedBy(...others.map((name) => pathToFileURL(join(layer, name)).href));
  expect([...packages]).toContain("zod");
  for (const name of [...FOREIGN, "better-sqlite3"]) expect([...packages]).not.toContain(name);
});
