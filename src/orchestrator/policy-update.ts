/**
 * New weights for the workers of a model.
 *
 * U1. Every worker acknowledges "updating" → push → every worker commits. A push that fails leaves the version.
 * U2. A worker that was restarted holds the weights of its first start, and knows of no update. It is brought up to the
 *     current ones before a rollout may call it; while new ones are pushed, that is when they are in place.
 * U3. Updates and what U2 does come one after the other.
 */
import type { ModelServer, OpenedRollout } from "../actors/index.js";
import type { PolicySnapshot } from "../embedded-policy/index.js";
import type { ActorRef } from "../runtime/index.js";
import { ConfigError } from "./errors.js";
import type { RunActors } from "./run-actors.js";
import type { ServerWorker } from "./serving.js";

/** Puts new weights in place; returns them for an engine that holds its own. */
export type PolicyPush = () => PolicySnapshot | undefined | Promise<PolicySnapshot | undefined>;

interface CurrentPolicy {
  readonly version: number;
  /** Undefined: the engine has them already. */
  readonly snapshot: PolicySnapshot | undefined;
}

export class PolicyUpdates {
  readonly #actors: Pick<RunActors, "servers" | "consumer">;
  /** Model name → its last update. */
  readonly #current = new Map<string, CurrentPolicy>();
  /** Model name → the version that is pushed now. */
  readonly #pushing = new Map<string, number>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(actors: Pick<RunActors, "servers" | "consumer">) {
    this.#actors = actors;
  }

  /** @throws RangeError when the version does not grow; INVALID_VALUE for an unknown model; what `push` threw. */
  async update(version: number, push: PolicyPush, model: string | undefined): Promise<void> {
    const { name, workers } = this.#workersOf(model);
    await this.#inTurn(async () => {
      this.#pushing.set(name, version);
      try {
        const snapshot = await pushed(version, push, workers);
        if (snapshot !== undefined)
          await this.#actors.consumer.call.policyUpdated(version, snapshot.digest);
        const current = { version, snapshot };
        this.#current.set(name, current);
        await Promise.all(workers.map(({ ref }) => commit(ref, current)));
      } finally {
        this.#pushing.delete(name);
      }
    });
  }

  /** U2. `opened` is what the worker answered to an opening that is not called yet. */
  async bringUp(model: string, { ref }: ServerWorker, opened: OpenedRollout): Promise<void> {
    const knows = opened.nextPolicyVersion === (this.#pushing.get(model) ?? null);
    if (knows && opened.policyVersion >= (this.#current.get(model)?.version ?? 0)) return;
    await this.#inTurn(async () => {
      const current = this.#current.get(model);
      if (current !== undefined) await putInPlace(ref, current);
    });
  }

  #workersOf(model: string | undefined): { name: string; workers: readonly ServerWorker[] } {
    const names = [...this.#actors.servers.keys()];
    const name = model ?? (names.length === 1 ? names[0] : undefined);
    const workers = name === undefined ? undefined : this.#actors.servers.get(name);
    if (name !== undefined && workers !== undefined) return { name, workers };
    throw new ConfigError(
      "INVALID_VALUE",
      "updatePolicy: model",
      `${JSON.stringify(model)} is not valid; allowed: ${names.join(", ")}`,
    );
  }

  /** U3. */
  #inTurn(step: () => Promise<void>): Promise<void> {
    const done = this.#last.then(step);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

async function pushed(version: number, push: PolicyPush, workers: readonly ServerWorker[]) {
  try {
    await Promise.all(workers.map(({ ref }) => ref.call.beginPolicyUpdate(version)));
    return await push();
  } catch (error) {
    await Promise.allSettled(workers.map(({ ref }) => ref.call.cancelPolicyUpdate(version)));
    throw error;
  }
}

/** A worker that was restarted since it acknowledged knows nothing of this update. */
async function commit(ref: ActorRef<ModelServer>, current: CurrentPolicy): Promise<void> {
  try {
    await ref.call.commitPolicyUpdate(current.version, current.snapshot);
  } catch (error) {
    const { policyVersion } = await ref.call.status();
    if (policyVersion >= current.version) throw error;
    await putInPlace(ref, current);
  }
}

async function putInPlace(
  ref: ActorRef<ModelServer>,
  { version, snapshot }: CurrentPolicy,
): Promise<void> {
  const { policyVersion } = await ref.call.status();
  if (policyVersion >= version) return;
  await ref.call.beginPolicyUpdate(version);
  await ref.call.commitPolicyUpdate(version, snapshot);
}
