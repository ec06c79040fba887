/**
 * Signs that a run is not what it seems, told before anyone looks at its reward curve.
 *
 * A rollout whose every token is exact can still be worthless: an engine without a tool parser gives one plain answer
 * for each task, capture works, and the reward even moves.
 *
 * H1. Each sign is told once while the run goes on, as soon as enough rollouts show it, and again at the end.
 */
import type { RunEvent, RunEventListener } from "./run-events.js";

/** What the signs are read from. Rows of selected agents. */
export interface HealthCounts {
  /** Rows with metrics. */
  readonly captured: number;
  /** Of those. */
  readonly masked: number;
  /** Rows without metrics. */
  readonly notRebuilt: number;
  /** Warning of a rollout → captured rows that have it. */
  readonly warnings: Readonly<Record<string, number>>;
}

/** Rollouts before a sign that needs all of them is told while the run goes on. */
const MIN_ROLLOUTS = 8;

/** Sign → what to tell. */
export function healthSigns(counts: HealthCounts): ReadonlyMap<string, string> {
  const { captured, masked, notRebuilt, warnings } = counts;
  const signs = new Map<string, string>();
  const single = warnings["SINGLE_CALL_WITH_TOOLS"] ?? 0;
  const markup = warnings["TOOL_MARKUP_IN_TEXT"] ?? 0;
  if (captured > 0 && single === captured)
    signs.set(
      "SINGLE_CALL_WITH_TOOLS",
      `every rollout (${captured}) has one call although tools were offered: the policy calls no tool, or the engine's tool parser is off or of another format`,
    );
  if (markup > 0)
    signs.set(
      "TOOL_MARKUP_IN_TEXT",
      `${markup} of ${captured} rollouts have tool markup left in text: the policy writes malformed calls, or the engine's tool parser is off or of another format`,
    );
  if (captured > 0 && masked === captured)
    signs.set(
      "ALL_MASKED",
      `all ${captured} captured rollouts are masked: there is nothing to train on`,
    );
  if (notRebuilt > 0)
    signs.set(
      "NOT_REBUILT",
      `${notRebuilt} rows were not rebuilt (not_rebuilt): they have no token ids and no mask`,
    );
  return signs;
}

/** Watches a run's events and warns through its listener. */
export class RunHealth {
  readonly #tell: RunEventListener;
  readonly #rebuildWanted: boolean;
  readonly #told = new Set<string>();
  readonly #warnings: Record<string, number> = {};
  #captured = 0;
  #masked = 0;
  #notRebuilt = 0;

  constructor(tell: RunEventListener, rebuildWanted: boolean) {
    this.#tell = tell;
    this.#rebuildWanted = rebuildWanted;
  }

  see(event: RunEvent): void {
    if (event.kind !== "rollout_end" || !event.captured) return;
    if (event.rebuilt) this.#captured += 1;
    else if (this.#rebuildWanted) this.#notRebuilt += 1;
    if (event.rebuilt && event.masked) this.#masked += 1;
    for (const warning of event.warnings)
      this.#warnings[warning] = (this.#warnings[warning] ?? 0) + 1;
    const enough = this.#captured >= MIN_ROLLOUTS;
    for (const [sign, message] of healthSigns(this.#counts))
      if (enough || sign === "NOT_REBUILT") this.#once(sign, message);
  }

  get #counts(): HealthCounts {
    return {
      captured: this.#captured,
      masked: this.#masked,
      notRebuilt: this.#notRebuilt,
      warnings: this.#warnings,
    };
  }

  #once(sign: string, message: string): void {
    if (this.#told.has(sign)) return; // H1
    this.#told.add(sign);
    this.#tell({ kind: "warning", message });
  }
}
