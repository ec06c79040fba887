/**
 * A server of another process as actors of this one: the consumer seals, freezes and drops through them as it would
 * through the server's own.
 */
import {
  parseTokenEntry,
  type TokenCaptureSnapshot,
  type TokenSource,
} from "../../capture/index.js";
import { defineActor } from "../../runtime/index.js";
import type { ModelServerStatus } from "../model-server/model-server.js";
import type { OpenedRollout, RolloutOpening } from "../model-server/rollouts.js";
import type { RolloutLedger } from "../rollout.js";
import { askServer, type ControlCall } from "./control.js";

/** The store behind a server. */
export class RemoteStore implements Pick<TokenSource, "freeze" | "drop"> {
  readonly #server: string;

  constructor(server: string) {
    this.#server = server;
  }

  async open(rolloutId: string): Promise<{ epoch: number }> {
    return (await this.#ask("open", rolloutId)) as { epoch: number };
  }

  async abandon(rolloutId: string): Promise<void> {
    await this.#ask("abandon", rolloutId);
  }

  async freeze(rolloutId: string): Promise<TokenCaptureSnapshot> {
    const snapshot = (await this.#ask("freeze", rolloutId)) as TokenCaptureSnapshot;
    return { ...snapshot, entries: snapshot.entries.map((entry) => parseTokenEntry(entry)) };
  }

  async drop(
    rolloutId: string,
    snapshot: { readonly snapshotId: string; readonly version: number },
  ): Promise<boolean> {
    return (await this.#ask("drop", rolloutId, snapshot)) === true;
  }

  /** What another run has open is not ours to close; a rollout of ours that was left runs again under a new id. */
  abandonOpen(): string[] {
    return [];
  }

  #ask(
    method: Extract<ControlCall, { target: "store" }>["method"],
    ...args: unknown[]
  ): Promise<unknown> {
    return askServer(this.#server, { target: "store", method, args });
  }
}

/** One worker of a server. */
export class RemoteWorker {
  readonly #server: string;
  readonly #name: string;

  constructor({ server, name }: RemoteWorkerOptions) {
    this.#server = server;
    this.#name = name;
  }

  async openRollout(opening: RolloutOpening): Promise<OpenedRollout> {
    return (await this.#ask("openRollout", opening)) as OpenedRollout;
  }

  async sealRollout(rolloutId: string): Promise<RolloutLedger> {
    return (await this.#ask("sealRollout", rolloutId)) as RolloutLedger;
  }

  async status(): Promise<ModelServerStatus> {
    return (await this.#ask("status")) as ModelServerStatus;
  }

  #ask(
    method: Extract<ControlCall, { target: "worker" }>["method"],
    ...args: unknown[]
  ): Promise<unknown> {
    return askServer(this.#server, { target: "worker", name: this.#name, method, args });
  }
}

interface RemoteWorkerOptions {
  readonly server: string;
  readonly name: string;
}

export const remoteStore = defineActor({
  module: import.meta.url,
  name: "remoteStore",
  create: (options: { readonly server: string }) => new RemoteStore(options.server),
});

export const remoteWorker = defineActor({
  module: import.meta.url,
  name: "remoteWorker",
  create: (options: RemoteWorkerOptions) => new RemoteWorker(options),
});
