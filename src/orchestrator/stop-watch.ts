import type { CorralConfig } from "./config/schema.js";
import type { RunEvent } from "./run-events.js";
import type { RunStop } from "./run-stop.js";

/** What is stopped. */
export interface Stoppable {
  stop(options: { readonly cancel: boolean }): void;
}

/** The stop that too many masked rows are; null while there are few, or no limit. */
export function maskStop(config: CorralConfig, captured: number, masked: number): RunStop | null {
  const { max_mask_fraction: max, mask_fraction_min_samples: min } = config.token_id_capture;
  if (max === undefined || captured < min || masked / captured <= max) return null;
  const message = `${masked} of ${captured} rows are masked; token_id_capture.max_mask_fraction is ${max}`;
  return { reason: "mask_fraction", message };
}

/** Decides when the run stops early, and why. */
export class StopWatch {
  readonly #config: CorralConfig;
  #timer: NodeJS.Timeout | undefined;
  #signal: AbortSignal | undefined;
  #loop: Stoppable | undefined;
  #captured = 0;
  #masked = 0;
  rows = 0;
  stop: RunStop | null = null;

  constructor(config: CorralConfig) {
    this.#config = config;
  }

  attach(loop: Stoppable, signal: AbortSignal | undefined): void {
    this.#loop = loop;
    const { deadline_s: deadlineS } = this.#config.rollout;
    if (deadlineS !== undefined)
      this.#timer = setTimeout(
        () => this.#end("deadline", `rollout.deadline_s ${deadlineS} is over`, true),
        deadlineS * 1000,
      );
    this.#signal = signal;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted) this.#onAbort();
  }

  detach(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }

  see(event: RunEvent): void {
    if (event.kind !== "rollout_end") return;
    this.rows++;
    if (!event.captured) return;
    this.#captured++;
    if (event.masked) this.#masked++;
    const stop = maskStop(this.#config, this.#captured, this.#masked);
    if (stop !== null) this.#end(stop.reason, stop.message, false);
  }

  readonly #onAbort = () => this.#end("signal", "interrupted", false);

  #end(reason: RunStop["reason"], message: string, cancel: boolean): void {
    this.stop ??= { reason, message };
    this.#loop?.stop({ cancel });
  }
}
