/** Progress of `corral run` on stderr: a bar on a terminal, else one line for each rollout. */
import { SingleBar } from "cli-progress";
import type { RunEvent } from "../index.js";
import { figure } from "./output.js";

type RolloutEnd = Extract<RunEvent, { kind: "rollout_end" }>;

/** Running counts of one process. */
class Counts {
  rollouts = 0;
  done = 0;
  running = 0;
  failed = 0;
  tokens = 0;
  #rewards = 0;
  #rewarded = 0;
  readonly #startedAtMs = performance.now();

  see(event: RunEvent): void {
    if (event.kind === "run_start") {
      this.rollouts = event.rollouts;
      this.done = event.delivered;
    } else if (event.kind === "rollout_start") {
      this.running++;
    } else if (event.kind === "rollout_retry" || event.kind === "rollout_cancelled") {
      this.running--;
    } else if (event.kind === "rollout_end") {
      this.running--;
      this.done++;
      if (event.failure !== null) this.failed++;
      this.tokens += event.generatedTokens;
      if (event.reward !== null) {
        this.#rewards += event.reward;
        this.#rewarded++;
      }
    }
  }

  get meanReward(): number | null {
    return this.#rewarded === 0 ? null : this.#rewards / this.#rewarded;
  }

  get tokensPerSecond(): number {
    return (1000 * this.tokens) / (performance.now() - this.#startedAtMs);
  }
}

export interface Progress {
  see(event: RunEvent): void;
  /** Prints a line that stays. */
  note(line: string): void;
  stop(): void;
}

export function createProgress(stream: NodeJS.WriteStream): Progress {
  return stream.isTTY ? new BarProgress(stream) : new LineProgress(stream);
}

class LineProgress implements Progress {
  readonly #stream: NodeJS.WritableStream;
  readonly #counts = new Counts();

  constructor(stream: NodeJS.WritableStream) {
    this.#stream = stream;
  }

  see(event: RunEvent): void {
    this.#counts.see(event);
    const line = describeEvent(event, this.#counts);
    if (line !== undefined) this.note(line);
  }

  note(line: string): void {
    this.#stream.write(`${line}\n`);
  }

  stop(): void {}
}

class BarProgress implements Progress {
  readonly #stream: NodeJS.WriteStream;
  readonly #counts = new Counts();
  readonly #bar: SingleBar;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    this.#bar = new SingleBar({
      stream,
      hideCursor: true,
      format:
        "{bar} {value}/{total} done, {running} running, {failed} failed | reward {reward} | {speed} tokens/s",
    });
  }

  see(event: RunEvent): void {
    this.#counts.see(event);
    if (event.kind === "run_start")
      this.#bar.start(this.#counts.rollouts, this.#counts.done, this.#figures());
    else this.#bar.update(this.#counts.done, this.#figures());
    if (event.kind === "warning" || event.kind === "rollout_retry") {
      const line = describeEvent(event, this.#counts);
      if (line !== undefined) this.note(line);
    }
  }

  /** Clears the bar's line; the bar draws itself again. */
  note(line: string): void {
    this.#stream.write(`\r\u001b[K${line}\n`);
  }

  stop(): void {
    this.#bar.stop();
  }

  #figures() {
    const { running, failed, meanReward, tokensPerSecond } = this.#counts;
    return { running, failed, reward: figure(meanReward), speed: figure(tokensPerSecond, 1) };
  }
}

function describeEvent(event: RunEvent, counts: Counts): string | undefined {
  switch (event.kind) {
    case "run_start": {
      const before = event.delivered > 0 ? `, ${event.delivered} delivered before` : "";
      return `${event.runId}: ${event.rollouts} rollouts${before}; ${event.dir}`;
    }
    case "warning":
      return `corral: warning: ${event.message}`;
    case "rollout_retry":
      return `${event.rolloutId}: ${event.failure.code}: ${event.failure.message}; trying again`;
    case "rollout_cancelled":
      return `${event.rolloutId}: cancelled; a later start runs it again`;
    case "rollout_end":
      return describeRollout(event, counts);
    case "rollout_start":
      return undefined;
  }
}

function describeRollout(event: RolloutEnd, { done, rollouts, tokensPerSecond }: Counts): string {
  const tokens = event.captured ? `${event.generatedTokens} tokens` : "not captured";
  const parts = [
    `[${done}/${rollouts}] ${event.rolloutId}: reward ${figure(event.reward)}`,
    `${event.calls} calls, ${tokens}`,
    `${figure(event.wallMs / 1000, 1)} s`,
    `${figure(tokensPerSecond, 1)} tokens/s`,
  ];
  if (event.masked) parts.push(`MASKED ${event.maskReasons.join(" ")}`.trim());
  if (event.failure !== null) parts.push(`${event.failure.code}: ${event.failure.message}`);
  return parts.join(", ");
}
