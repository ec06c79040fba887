/**
 * Benchmarks and examples are plain JavaScript, and most of them run by hand only. What they import must be there, by
 * that name; whoever reaches past the package's entry points, into `dist`, is held to the types found there as well.
 */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "../..");

const OPTIONS: ts.CompilerOptions = {
  allowJs: true,
  checkJs: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2023,
  lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
  typeRoots: [path.join(root, "node_modules/@types")],
};

/** No such module; no such export of it (plain, a near miss, a default, a type). */
const IMPORT_FAULTS = new Set([2307, 7016, 2305, 2724, 2614, 1192, 2459]);

function faultsOf(files: readonly string[]): string[] {
  const program = ts.createProgram(files, OPTIONS);
  return files.flatMap((file) => {
    const source = program.getSourceFile(file);
    if (source === undefined) return [`${file}: not found`];
    const reachesInside = source.text.includes("/dist/");
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
      .filter(({ code }) => reachesInside || IMPORT_FAULTS.has(code))
      .map(({ code, messageText }) => {
        const text = ts.flattenDiagnosticMessageText(messageText, " ");
        return `${path.relative(root, file)}: TS${code} ${text}`;
      })
      .filter((fault) => !fault.endsWith("on type 'unknown'.")); // of parsed JSON
  });
}

test("every import of every benchmark and example is there, by that name", () => {
  const scripts = ["bench", "examples"].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.[cm]?[jt]s$/.test(file) && !file.includes("node_modules"))
      .map((file) => path.join(root, folder, file)),
  );
  expect(scripts.length).toBeGreaterThan(40);
  expect(faultsOf(scripts)).toEqual([]);
});

test("a module that is gone, a name that is gone and a type that changed are each found", () => {
  const dir = mkdtempSync(path.join(tmpdir(), "corral-scripts-"));
  const server = `${root}/dist/actors/model-server`;
  const lines = {
    "module.mjs": 'import { gone } from "./gone.mjs";\nexport { gone };\n',
    "name.mjs": `import { gone } from "${root}/dist/index.js";\nexport { gone };\n`,
    "type.mjs": `import { ModelServer } from "${server}/model-server.js";\nnew ModelServer({}, {});\n`,
  };
  try {
    for (const [file, text] of Object.entries(lines)) writeFileSync(path.join(dir, file), text);
    const faults = faultsOf(Object.keys(lines).map((file) => path.join(dir, file)));
    expect(
      faults.map((fault) =>
        fault
          .match(/(\w+\.mjs): TS(\d+)/)
          ?.slice(1)
          .join(" "),
      ),
    ).toEqual(["module.mjs 2307", "name.mjs 2305", "type.mjs 2345"]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
