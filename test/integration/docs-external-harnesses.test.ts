/** Runs every code block of docs/external-harnesses.md, in its order, in one folder. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const page = fs.readFileSync(path.join(root, "docs/external-harnesses.md"), "utf8");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-docs-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

// As an installed package, and its command on the path.
fs.mkdirSync(path.join(folder, "node_modules/.bin"), { recursive: true });
fs.symlinkSync(root, path.join(folder, "node_modules/corral"));
fs.writeFileSync(
  path.join(folder, "node_modules/.bin/corral"),
  `#!/bin/sh\nexec "${process.execPath}" "${path.join(root, "dist/cli/main.js")}" "$@"\n`,
  { mode: 0o755 },
);

/** Output of what ran, by file name. */
const outputs = new Map<string, string>();

function execute(command: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: folder,
    encoding: "utf8",
    env: {
      ...process.env,
      PATH: `${path.join(folder, "node_modules/.bin")}:${process.env["PATH"]}`,
    },
  });
  expect(`${status} ${status === 0 ? "" : stderr}`).toBe("0 ");
  return stdout;
}

const blocks = [...page.matchAll(/^```(\w+)([^\n]*)\n([\s\S]*?)^```$/gm)].map(
  ([, language = "", info = "", text = ""]) => ({ language, info: info.trim(), text }),
);
const hasJq = spawnSync("jq", ["--version"]).status === 0;

describe("docs/external-harnesses.md", () => {
  it("has its sections in order", () => {
    const sections = [...page.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    expect(sections).toEqual([
      "When you need it",
      "Turning it on",
      "What you get",
      "First run",
      "Custom routing",
      "Limitations",
      "Advanced integration",
    ]);
  });

  it.each(blocks)("runs the $language block $info", ({ language, info, text }) => {
    if (language === "sh") {
      if (text.startsWith("jq") && !hasJq) return;
      execute("sh", ["-e", "-c", text]);
    } else if (language === "text") {
      expect(outputs.get(info)).toBe(text);
    } else {
      const name = info.replace(/^run /, "");
      expect(name).toMatch(/^[\w.-]+$/);
      fs.writeFileSync(path.join(folder, name), text);
      if (info !== name) outputs.set(name, execute(process.execPath, [name]));
    }
  });

  it("left two trainable rows", () => {
    const rows = fs.readFileSync(path.join(folder, "rollouts.jsonl"), "utf8").trim().split("\n");
    const metrics = rows.map((row) => JSON.parse(row)._ng_token_capture);
    expect(metrics).toHaveLength(2);
    for (const one of metrics)
      expect(one).toMatchObject({ n_calls: 2, chains: 1, delivered_fraction: 1, mask_reasons: [] });
  });
});
