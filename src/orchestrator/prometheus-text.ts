/** The figures of a run in Prometheus's text format, version 0.0.4. */
import type { RunStats } from "./run-counts.js";

interface Series {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly value: number | undefined;
}

/** `reported` is what the trainer said of its last step: each value a gauge `corral_trainer_<name>`. */
export function prometheusText(
  stats: RunStats,
  reported: Readonly<Record<string, number>>,
): string {
  const counter = (name: string, help: string, value: number | undefined): Series => ({
    name: `corral_${name}_total`,
    type: "counter",
    help,
    value,
  });
  const gauge = (name: string, help: string, value: number | undefined): Series => ({
    name: `corral_${name}`,
    type: "gauge",
    help,
    value,
  });
  const series = [
    gauge("n_calls", "Mean model calls of a rollout.", stats.n_calls),
    gauge("chains", "Mean chains of a rollout.", stats.chains),
    gauge(
      "delivered_fraction",
      "Delivered of captured generated tokens.",
      stats.delivered_fraction,
    ),
    counter("masked", "Rollouts that a trainer must skip.", stats.masked),
    counter("rollouts", "Rollouts delivered.", stats.rollouts),
    counter("trainable", "Rollouts to take gradients on.", stats.trainable),
    counter("stale", "Rollouts older than the allowed policy lag.", stats.stale),
    counter("failed", "Rollouts with an error.", stats.failed),
    counter("retried", "Attempts that were repeated.", stats.retried),
    counter("cancelled", "Rollouts that were cancelled.", stats.cancelled),
    counter("generated_tokens", "Generated tokens captured.", stats.generated_tokens),
    counter("steps", "Steps reported.", stats.steps),
    gauge("running", "Rollouts that run.", stats.running),
    gauge("policy_version", "Version of the weights.", stats.policy_version),
    gauge("reward_mean", "Mean reward of trainable rollouts.", stats.reward_mean),
    ...Object.entries(reported).map(([name, value]) =>
      gauge(`trainer_${name.replaceAll(/[^a-zA-Z0-9_]/g, "_")}`, "Reported by the trainer.", value),
    ),
  ];
  const reasons = Object.entries(stats.reasons).map(
    ([reason, count]) => `corral_rollout_reasons_total{reason=${JSON.stringify(reason)}} ${count}`,
  );
  const head =
    "# HELP corral_rollout_reasons_total Rollouts by mask reason or failure.\n# TYPE corral_rollout_reasons_total counter";
  const lines = series.flatMap(({ name, type, help, value }) =>
    value === undefined || !Number.isFinite(value)
      ? []
      : [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, `${name} ${value}`],
  );
  return `${[...lines, ...(reasons.length > 0 ? [head, ...reasons] : [])].join("\n")}\n`;
}
