/** TypeScript actors in development: under vitest (here), tsx and node, and what is said without tsx. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { createRuntime, defineActor } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { greeter } from "../fixtures/actors/typed.actor.js";
import { silentLogger } from "../support/runtime-support.js";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const actorUrl = new URL("../fixtures/actors/typed.actor.ts", import.meta.url).href;
const reports = ["tsx/issues/354", "vitest/issues/3234", "5757", "6040"].join(", ");
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "typescript-"));
});
afterEach(() => {
  rmSync(dir, { recursive: true });
});

describe(`a .ts actor in a worker thread: ${reports}`, () => {
  it("works under vitest", async () => {
    await using runtime = await createRuntime({ logger: silentLogger });
    const ref = await runtime.spawn(greeter, { greeting: "Hello" });
    expect(await ref.call.greet("you")).toBe("Hello, you");
    expect(await runtime.task(actorUrl, "add", [1, 2])).toBe(3);
  });

  it("works when the .js file that is named is not there", async () => {
    await using runtime = await createRuntime({ logger: silentLogger });
    const built = { ...greeter, module: actorUrl.replace(/\.ts$/, ".js") };
    const ref = await runtime.spawn(built, { greeting: "Good day" });
    expect(await ref.call.greet("you")).toBe("Good day, you");
  });

  it("works under tsx and under node --import tsx", async () => {
    const main = join(dir, "main.ts");
    symlinkSync(join(root, "node_modules"), join(dir, "node_modules"));
    const source = `
      import { createRuntime } from ${JSON.stringify(pathToFileURL(join(root, "dist/runtime/index.js")).href)};
      import { greeter } from "./typed.actor.js";
      const runtime = await createRuntime();
      const ref = await runtime.spawn(greeter, { greeting: "Hi" as string });
      console.log(await ref.call.greet("tsx"));
      await runtime.shutdown();`;
    writeFileSync(main, source);
    writeFileSync(join(dir, "package.json"), '{"type":"module"}');
    writeActorImport(dir);
    for (const command of [
      [join(root, "node_modules/tsx/dist/cli.mjs"), main],
      ["--import", pathToFileURL(join(root, "node_modules/tsx/dist/loader.mjs")).href, main],
    ]) {
      const { stdout } = await run(process.execPath, command, { cwd: dir, timeout: 60_000 });
      expect(stdout).toBe("Hi, tsx\n");
    }
  });

  it("says that tsx is missing, where it is", async () => {
    const path = join(dir, "lonely.actor.ts");
    writeFileSync(path, "export const nothing: number = 1;");
    await using runtime = await createRuntime({ logger: silentLogger });
    const lonely = defineActor({
      module: pathToFileURL(path).href,
      name: "lonely",
      create: () => ({}),
    });
    await expect(runtime.spawn(lonely, undefined)).rejects.toMatchObject({
      code: "ACTOR_START_FAILED",
      message: expect.stringMatching(/lonely\.actor\.ts is TypeScript: install tsx/),
    });
  });
});

/** The copied actor lies outside of the package, so it names the runtime by its path. */
function writeActorImport(directory: string): void {
  const runtimeUrl = pathToFileURL(join(root, "dist/runtime/index.js")).href;
  const source = `
    import { defineActor } from ${JSON.stringify(runtimeUrl)};
    class Greeter { constructor(private readonly greeting: string) {} greet(name: string): string { return this.greeting + ", " + name; } }
    export const greeter = defineActor({
      module: import.meta.url, name: "greeter",
      create: (options: { greeting: string }) => new Greeter(options.greeting),
    });`;
  writeFileSync(join(directory, "typed.actor.ts"), source);
}
