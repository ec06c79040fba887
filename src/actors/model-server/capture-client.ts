/**
 * The sink and the lineage of one worker, built in that worker from a descriptor that could cross a thread.
 *
 * Whoever builds closes: `close` closes both, after the last put. A store handle is not closed here.
 *
 * D1. A sink that cannot mark a rollout incomplete is refused at start.
 */
import {
  BatchedWriter,
  StoreSink,
  type TokenLineage,
  type TokenSink,
} from "../../capture/index.js";
import { buildUserClass } from "../user-class.js";
import type { CaptureDescriptor } from "./options.js";

export interface CaptureClient {
  readonly sink: TokenSink;
  /** See `RecorderServices`. */
  readonly ordersWrites: boolean;
  /** Null: every continuation is UNRESOLVED. */
  readonly lineage: TokenLineage | null;
  /** What is remembered of the rollout: it is sealed and none of its calls runs, or it was dispatched again. */
  forget(rolloutId: string): void;
  /** Idempotent. */
  close(): Promise<void>;
}

/**
 * @returns null when capture is off.
 * @throws AdapterError ADAPTER_INVALID naming the module, export or method that is at fault.
 */
export async function openCapture(descriptor: CaptureDescriptor): Promise<CaptureClient | null> {
  if (descriptor.kind === "off") return null;
  if (descriptor.kind === "store") {
    const { call } = descriptor.store;
    const sink = new StoreSink(new BatchedWriter(call));
    const lineage: TokenLineage = {
      candidates: async (rolloutId, key) =>
        sink.recentCandidates(rolloutId, key) ?? call.candidates(rolloutId, key),
      cumulativeIds: async (rolloutId, modelCallId) =>
        sink.recentIds(rolloutId, modelCallId) ?? call.cumulativeIds(rolloutId, modelCallId),
    };
    const forget = (rolloutId: string) => sink.forget(rolloutId);
    return { sink, ordersWrites: true, lineage, forget, close: () => sink.close() };
  }
  const sink = await buildUserClass<TokenSink>(descriptor.sink, "sink", [
    "put",
    "markIncomplete",
    "close",
  ]);
  const lineage =
    descriptor.lineage === undefined
      ? null
      : await buildUserClass<TokenLineage & Partial<Pick<TokenSink, "close">>>(
          descriptor.lineage,
          "lineage",
          ["candidates", "cumulativeIds"],
        );
  return {
    sink,
    ordersWrites: false,
    lineage,
    forget: () => undefined,
    close: async () => {
      await sink.close();
      await lineage?.close?.();
    },
  };
}
