/**
 * The actor's side of the watchdog process: what is registered there is killed and removed should this process die.
 *
 * W2. `register` resolves only when the watchdog has answered: whatever is started after that cannot outlive us.
 * W3. A watchdog that dies is started again and told everything that is still registered.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { HarnessLogger } from "./context.js";
import { AgentHarnessError } from "./errors.js";

const ENTRY = fileURLToPath(new URL("./watchdog-process.js", import.meta.url));
const MAX_RESTARTS = 3;

type WatchdogChild = ChildProcessByStdio<Writable, Readable, null>;

export class Watchdog {
  readonly #logger: HarnessLogger;
  /** Directory → process group, 0 when it has none yet. */
  readonly #registered = new Map<string, number>();
  readonly #waiting = new Map<string, { resolve(): void; reject(error: Error): void }>();
  #child: WatchdogChild | null = null;
  #restarts = 0;
  #closing = false;

  private constructor(logger: HarnessLogger) {
    this.#logger = logger;
  }

  /** @throws WATCHDOG_FAILED when the process does not start. */
  static async start(logger: HarnessLogger): Promise<Watchdog> {
    const watchdog = new Watchdog(logger);
    const child = watchdog.#launch();
    try {
      await once(child, "spawn");
    } catch (error) {
      throw new AgentHarnessError("WATCHDOG_FAILED", "the watchdog does not start", {
        cause: error,
      });
    }
    return watchdog;
  }

  /** Process id, for diagnosis. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Makes the watchdog answer for a directory and, when given, a process group.
   * @throws WATCHDOG_FAILED when no watchdog can be kept running.
   */
  async register(directory: string, pgid: number | null): Promise<void> {
    if (directory.includes("\n"))
      throw new AgentHarnessError("OPTIONS_INVALID", "tempRoot holds a line break");
    if (this.#child === null) throw this.#failed();
    this.#registered.set(directory, pgid ?? 0);
    const line = `+${pgid ?? 0} ${directory}`;
    const answered = new Promise<void>((resolve, reject) => {
      this.#waiting.set(line, { resolve, reject });
    });
    this.#child.stdin.write(`${line}\n`);
    await answered; // W2
  }

  unregister(directory: string): void {
    if (this.#registered.delete(directory)) this.#child?.stdin.write(`-${directory}\n`);
  }

  /** Ends the watchdog; it cleans up whatever is still registered first. */
  async close(): Promise<void> {
    this.#closing = true;
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.stdin.end();
    await exited;
  }

  #launch(): WatchdogChild {
    // Its own session: a signal to our group, as from a terminal, must not end it before us.
    const child = spawn(process.execPath, [ENTRY], {
      cwd: "/",
      env: {},
      detached: true,
      stdio: ["pipe", "pipe", "ignore"],
    });
    child.stdin.on("error", () => {});
    child.once("error", (error) => this.#ended(error.message));
    child.once("exit", (code, signal) => this.#ended(`exit ${code ?? signal}`));
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.#waiting.get(line)?.resolve();
      this.#waiting.delete(line);
    });
    this.#child = child;
    return child;
  }

  #ended(how: string): void {
    if (this.#closing) return;
    if (this.#restarts === MAX_RESTARTS) {
      this.#child = null;
      for (const { reject } of this.#waiting.values()) reject(this.#failed());
      this.#waiting.clear();
      return;
    }
    this.#restarts += 1;
    this.#logger.error(
      { how, restarts: this.#restarts },
      "the harness watchdog died; starting it again",
    );
    const child = this.#launch();
    for (const [directory, pgid] of this.#registered) child.stdin.write(`+${pgid} ${directory}\n`); // W3
  }

  #failed(): AgentHarnessError {
    return new AgentHarnessError("WATCHDOG_FAILED", "the harness watchdog does not stay alive");
  }
}
