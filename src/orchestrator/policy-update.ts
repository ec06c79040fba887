import type { PolicySnapshot } from "../embedded-policy/index.js";
import { ConfigError } from "./errors.js";
import type { RunActors } from "./run-actors.js";

/** Puts new weights in place; returns them for an engine that holds its own. */
export type PolicyPush = () => PolicySnapshot | undefined | Promise<PolicySnapshot | undefined>;

/**
 * Every worker of the model acknowledges "updating" → push → every worker commits. A failed push leaves the version.
 * @throws RangeError when the version does not grow; INVALID_VALUE for an unknown model; what `push` threw.
 */
export async function updatePolicy(
  { servers, consumer }: RunActors,
  version: number,
  push: PolicyPush,
  model: string | undefined,
): Promise<void> {
  const names = [...servers.keys()];
  const [only, ...others] = names;
  const name = model ?? (others.length === 0 ? only : undefined);
  const workers = name === undefined ? undefined : servers.get(name);
  if (workers === undefined)
    throw new ConfigError(
      "INVALID_VALUE",
      "updatePolicy: model",
      `${JSON.stringify(model)} is not valid; allowed: ${names.join(", ")}`,
    );
  const cancel = () =>
    Promise.allSettled(workers.map(({ ref }) => ref.call.cancelPolicyUpdate(version)));
  let snapshot: PolicySnapshot | undefined;
  try {
    await Promise.all(workers.map(({ ref }) => ref.call.beginPolicyUpdate(version)));
    snapshot = await push();
  } catch (error) {
    await cancel();
    throw error;
  }
  if (snapshot !== undefined) await consumer.call.policyUpdated(version, snapshot.digest);
  await Promise.all(workers.map(({ ref }) => ref.call.commitPolicyUpdate(version, snapshot)));
}
