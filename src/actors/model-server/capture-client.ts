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
import type { CaptureDescriptor, ModuleFactory } from "./options.js";

/** Thrown when the configured sink or lineage cannot be used. Usual cause: a wrong module path or export name. */
class SinkError extends Error {
  static {
    Object.defineProperty(SinkError.prototype, "name", { value: "SinkError" });
  }
  readonly code = "SINK_INVALID";
}

export interface CaptureClient {
  readonly sink: TokenSink;
  /** Null: every continuation is UNRESOLVED. */
  readonly lineage: TokenLineage | null;
  /** Idempotent. */
  close(): Promise<void>;
}

/**
 * @returns null when capture is off.
 * @throws SinkError SINK_INVALID naming the module, export or method that is at fault.
 */
export async function openCapture(descriptor: CaptureDescriptor): Promise<CaptureClient | null> {
  if (descriptor.kind === "off") return null;
  if (descriptor.kind === "store") {
    const { call } = descriptor.store;
    const sink = new StoreSink(new BatchedWriter(call));
    const lineage: TokenLineage = {
      candidates: (rolloutId, key) => call.candidates(rolloutId, key),
      cumulativeIds: async (rolloutId, modelCallId) =>
        sink.recentIds(rolloutId, modelCallId) ?? call.cumulativeIds(rolloutId, modelCallId),
    };
    return { sink, lineage, close: () => sink.close() };
  }
  const sink = await build<TokenSink>(descriptor.sink, "sink", ["put", "markIncomplete", "close"]);
  const lineage =
    descriptor.lineage === undefined
      ? null
      : await build<TokenLineage & Partial<Pick<TokenSink, "close">>>(
          descriptor.lineage,
          "lineage",
          ["candidates", "cumulativeIds"],
        );
  return {
    sink,
    lineage,
    close: async () => {
      await sink.close();
      await lineage?.close?.();
    },
  };
}

/** `new Export(kwargs)` of a user's module, checked to have the methods (D1). */
async function build<T>(
  factory: ModuleFactory,
  role: string,
  methods: readonly (keyof T & string)[],
): Promise<T> {
  const { specifier, kwargs } = factory;
  const colon = specifier.lastIndexOf(":");
  const exportName = specifier.slice(colon + 1);
  if (colon <= 0 || exportName === "")
    throw new SinkError(`token_id_capture.${role}: "${specifier}" must be "module:Export"`);
  const fault = (problem: string, cause?: unknown) =>
    new SinkError(`token_id_capture.${role}: "${specifier}" ${problem}`, { cause });
  let module: Record<string, unknown>;
  try {
    module = (await import(specifier.slice(0, colon))) as Record<string, unknown>;
  } catch (error) {
    throw fault(`does not load: ${messageOf(error)}`, error);
  }
  const Export = module[exportName];
  if (typeof Export !== "function") throw fault(`has no class ${exportName}`);
  let built: unknown;
  try {
    built = new (Export as new (kwargs: unknown) => unknown)(kwargs);
  } catch (error) {
    throw fault(`could not be built: ${messageOf(error)}`, error);
  }
  const missing = methods.filter(
    (method) => typeof (built as Record<string, unknown>)[method] !== "function",
  );
  if (missing.length > 0) throw fault(`has no method ${missing.join(", ")}`);
  return built as T;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
