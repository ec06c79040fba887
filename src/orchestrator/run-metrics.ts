/**
 * What a run says about itself: a line for each step in metrics.jsonl, and the same figures as Prometheus text.
 *
 * M1. What is not known is absent, never 0.
 */
import { createWriteStream, type WriteStream } from "node:fs";
import path from "node:path";
import type { CorralConfig } from "./config/schema.js";
import { MetricsServer } from "./metrics-server.js";
import { prometheusText } from "./prometheus-text.js";
import type { Rollout } from "./rollout-group.js";
import { RolloutCounts, type RunStats } from "./run-counts.js";
import type { RunEvent } from "./run-events.js";

export type RunState = Pick<RunStats, "running" | "pending"> & { readonly policyVersion: number };

export class RunMetrics {
  readonly #file: WriteStream;
  readonly #total = new RolloutCounts();
  #step = new RolloutCounts();
  #stepStartedAtMs = performance.now();
  readonly #startedAtMs = performance.now();
  #steps = 0;
  #retried = 0;
  #cancelled = 0;
  /** What the trainer reported last. */
  #reported: Readonly<Record<string, number>> = {};
  #state: RunState = { running: 0, pending: 0, policyVersion: 0 };
  #server: MetricsServer | undefined;

  private constructor(file: WriteStream) {
    this.#file = file;
  }

  /** @throws START_FAILED when the port of `/metrics` is not free. */
  static async open(dir: string, config: CorralConfig["metrics"]): Promise<RunMetrics> {
    const metrics = new RunMetrics(
      createWriteStream(path.join(dir, "metrics.jsonl"), { flags: "a", mode: 0o600 }),
    );
    if (config.port !== undefined)
      metrics.#server = await MetricsServer.start(config.host, config.port, () =>
        prometheusText(metrics.stats(metrics.#state), metrics.#reported),
      );
    return metrics;
  }

  /** Base URL of `/metrics`; undefined without a port. */
  get url(): string | undefined {
    return this.#server?.url;
  }

  see(event: RunEvent): void {
    if (event.kind === "rollout_retry") this.#retried++;
    else if (event.kind === "rollout_cancelled") this.#cancelled++;
  }

  deliver(rollout: Rollout): void {
    this.#total.add(rollout);
    this.#step.add(rollout);
  }

  stats(state: RunState): RunStats {
    this.#state = state;
    const wallS = (performance.now() - this.#startedAtMs) / 1000;
    const figures = this.#total.figures();
    return {
      ...figures,
      running: state.running,
      pending: state.pending,
      retried: this.#retried,
      cancelled: this.#cancelled,
      policy_version: state.policyVersion,
      steps: this.#steps,
      wall_s: wallS,
      tokens_per_s: figures.generated_tokens / wallS,
      rollouts_per_s: figures.rollouts / wallS,
      reasons: { ...this.#total.reasons },
    };
  }

  /** Writes the step's line and begins the next step. */
  step(state: RunState, values: Readonly<Record<string, number>>): void {
    const { n_calls, chains, delivered_fraction, masked, ...rest } = this.#step.figures();
    const now = performance.now();
    const wallS = (now - this.#stepStartedAtMs) / 1000;
    const line = {
      ...(n_calls !== undefined && { n_calls }),
      ...(chains !== undefined && { chains }),
      ...(delivered_fraction !== undefined && { delivered_fraction }),
      masked,
      ...values,
      ...rest,
      step: this.#steps,
      policy_version: state.policyVersion,
      wall_s: wallS,
      tokens_per_s: rest.generated_tokens / wallS,
      at: new Date().toISOString(),
      reasons: this.#step.reasons,
    };
    this.#file.write(`${JSON.stringify(line)}\n`);
    this.#steps++;
    this.#step = new RolloutCounts();
    this.#stepStartedAtMs = now;
    this.#state = state;
    this.#reported = values;
  }

  async close(): Promise<void> {
    await this.#server?.close();
    await new Promise<void>((resolve) => this.#file.end(resolve));
  }
}
