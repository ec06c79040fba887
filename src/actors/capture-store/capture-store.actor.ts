/**
 * The one writer of a capture store: model-server workers hand it encoded rows, the consumer freezes and drops through
 * it. Holds no state of its own, so a restarted actor goes on where the file stands.
 */
import {
  type BatchWriter,
  type LineageKey,
  type LineageNode,
  type PrunedRollout,
  type PruneFrozen,
  type StoreOperation,
  type StoreOutcome,
  type TokenCaptureSnapshot,
  TokenCaptureStore,
} from "../../capture/index.js";
import { defineActor } from "../../runtime/index.js";

export interface CaptureStoreOptions {
  /** Directory of the store, on a local disk; created with mode 0700 when it is missing. */
  readonly dir: string;
  /** Opens the store on a network file system all the same. Default false. */
  readonly allowNetworkFs?: boolean;
}

/** `TokenCaptureStore` as an actor; each method has its contract, and every error keeps its `code`. */
export class CaptureStore implements BatchWriter {
  readonly #store: TokenCaptureStore;

  constructor(options: CaptureStoreOptions) {
    this.#store = new TokenCaptureStore(options);
  }

  /** Each is durable before this resolves. Sending operations again whose answers were lost is safe. */
  writeAll(operations: readonly StoreOperation[]): Promise<StoreOutcome[]> {
    return Promise.all(
      operations.map((operation) =>
        this.#store
          .write(operation)
          .catch((error: unknown): StoreOutcome => ({ answer: "failed", error })),
      ),
    );
  }

  open(rolloutId: string): Promise<{ epoch: number }> {
    return this.#store.open(rolloutId);
  }

  reset(rolloutId: string): Promise<{ epoch: number }> {
    return this.#store.reset(rolloutId);
  }

  abandonOpen(): Promise<string[]> {
    return this.#store.abandonOpen();
  }

  abandon(rolloutId: string): Promise<void> {
    return this.#store.abandon(rolloutId);
  }

  freeze(rolloutId: string): Promise<TokenCaptureSnapshot> {
    return this.#store.freeze(rolloutId);
  }

  peek(rolloutId: string): Promise<TokenCaptureSnapshot | undefined> {
    return this.#store.peek(rolloutId);
  }

  drop(
    rolloutId: string,
    snapshot: { readonly snapshotId: string; readonly version: number },
  ): Promise<boolean> {
    return this.#store.drop(rolloutId, snapshot);
  }

  pruneFrozen(request: PruneFrozen): Promise<PrunedRollout[]> {
    return this.#store.pruneFrozen(request);
  }

  candidates(rolloutId: string, key: LineageKey): Promise<readonly LineageNode[]> {
    return this.#store.candidates(rolloutId, key);
  }

  cumulativeIds(rolloutId: string, modelCallId: string): Promise<Int32Array> {
    return this.#store.cumulativeIds(rolloutId, modelCallId);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

/** Spawn one per run directory, and stop it after everything that writes to it. */
export const captureStore = defineActor({
  module: import.meta.url,
  name: "capture-store",
  options: { parse: parseOptions },
  // What may run again when the thread died under it, its answer lost. A drop may not: it would answer false.
  methods: {
    writeAll: { idempotent: true },
    abandon: { idempotent: true },
    freeze: { idempotent: true },
    candidates: { idempotent: true },
    cumulativeIds: { idempotent: true },
  },
  create: (options: CaptureStoreOptions) => new CaptureStore(options),
  stop: (actor: CaptureStore) => actor.close(),
});

function parseOptions(value: unknown): CaptureStoreOptions {
  const { dir, allowNetworkFs = false } = (value ?? {}) as Record<
    keyof CaptureStoreOptions,
    unknown
  >;
  if (typeof dir !== "string" || dir === "") {
    throw new TypeError(
      `capture-store: dir is ${String(dir)}; it must be the path of a directory.`,
    );
  }
  if (typeof allowNetworkFs !== "boolean") {
    throw new TypeError(
      `capture-store: allowNetworkFs is ${String(allowNetworkFs)}; it must be true or false.`,
    );
  }
  return { dir, allowNetworkFs };
}
