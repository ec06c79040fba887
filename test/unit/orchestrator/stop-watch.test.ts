import { describe, expect, it } from "vitest";
import { loadConfig } from "../../../src/orchestrator/config/load.js";
import type { RunEvent } from "../../../src/orchestrator/run-events.js";
import { maskStop, StopWatch } from "../../../src/orchestrator/stop-watch.js";

function ended(masked: boolean, captured = true): RunEvent {
  return {
    kind: "rollout_end",
    slot: { pass: 0, taskIndex: 0, rolloutIndex: 0 },
    rolloutId: "0-0",
    attempt: 0,
    captured,
    reward: 1,
    masked,
    maskReasons: [],
    failure: null,
    rebuilt: captured,
    warnings: [],
    calls: 1,
    generatedTokens: 1,
    wallMs: 1,
  };
}

function watching(capture: object, signal?: AbortSignal) {
  const stops: boolean[] = [];
  const watch = new StopWatch(loadConfig({ token_id_capture: capture }));
  const stop = async ({ cancel }: { cancel: boolean }) => {
    stops.push(cancel);
  };
  watch.attach({ stop }, signal);
  return { watch, stops };
}

describe("StopWatch", () => {
  it("stops when too many rows are masked, and not before enough were seen", () => {
    const { watch, stops } = watching({ max_mask_fraction: 0.5, mask_fraction_min_samples: 4 });
    for (const masked of [true, true, true]) watch.see(ended(masked));
    watch.see(ended(true, false));
    expect(stops).toEqual([]);
    watch.see(ended(false));
    expect(stops).toEqual([false]);
    expect(watch.stop).toEqual({
      reason: "mask_fraction",
      message: "3 of 4 rows are masked; token_id_capture.max_mask_fraction is 0.5",
    });
    expect(watch.rows).toBe(5);
  });

  it("goes on at exactly the fraction, and without a limit", () => {
    for (const capture of [{ max_mask_fraction: 0.5, mask_fraction_min_samples: 1 }, {}]) {
      const { watch, stops } = watching(capture);
      watch.see(ended(false));
      watch.see(ended(true));
      expect(stops).toEqual([]);
    }
  });

  it("is a stop also over the rows of an earlier process, or when no rollout is left", () => {
    const config = loadConfig({
      token_id_capture: { max_mask_fraction: 0.5, mask_fraction_min_samples: 4 },
    });
    expect(maskStop(config, 3, 3)).toBeNull();
    expect(maskStop(config, 4, 2)).toBeNull();
    expect(maskStop(config, 4, 3)?.reason).toBe("mask_fraction");
    expect(maskStop(loadConfig({}), 4, 4)).toBeNull();
  });

  it("drains on a signal, also one that was aborted before", () => {
    const controller = new AbortController();
    const { stops, watch } = watching({}, controller.signal);
    controller.abort();
    expect(stops).toEqual([false]);
    expect(watch.stop?.reason).toBe("signal");
    expect(watching({}, controller.signal).stops).toEqual([false]);
  });
});
