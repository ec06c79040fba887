/** The examples run, each in a process of its own, and print what they say. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const printed: Record<string, string> = {
  counter: "increments: [ 1, 3, 6 ]\nrefused: RangeError BAD_STEP\nstopped: stopped\n",
  restart: [
    "answered by restart 2",
    "PENDING_CREATION ",
    "ALIVE ",
    "RESTARTING exit",
    "ALIVE ",
    "RESTARTING exit",
    "ALIVE ",
    "DEAD stopped",
    "",
  ].join("\n"),
  streaming: "1\n4\n9\n16\n25\nfinally ran: yes\n",
  pool: "scores: [ 1, 2, 3, 4 ]\none key, one actor: true\n",
};

it.each(Object.keys(printed))("examples/actors/%s.mjs", async (name) => {
  const path = fileURLToPath(new URL(`../../examples/actors/${name}.mjs`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [path], { timeout: 60_000 });
  expect(stdout).toBe(printed[name]);
});
