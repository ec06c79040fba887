/** `npm run demo`: the example's rollouts into a fresh `out/`. */
import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

rmSync(here("out"), { recursive: true, force: true });
mkdirSync(here("out"));
const run = spawn(
  process.execPath,
  [
    here("../../dist/cli/main.js"),
    "run",
    ...["--config", here("corral.yaml")],
    ...["--tasks", here("tasks.jsonl")],
    ...["--out", here("out/rollouts.jsonl")],
  ],
  { stdio: "inherit" },
);
// A terminal's Ctrl-C or hang-up reaches the run as well; ending before it would leave it alone in the background.
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => undefined);
process.on("SIGTERM", () => run.kill("SIGTERM"));
run.on("exit", (code, signal) => {
  process.exitCode = signal === null ? (code ?? 1) : 1;
});
