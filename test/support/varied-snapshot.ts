import {
  type PolicySnapshot,
  snapshotOf,
  untrainedSnapshot,
} from "../../src/embedded-policy/index.js";

/** A snapshot whose weights are all different, so that no term of a score cancels by luck. */
export function variedSnapshot(): PolicySnapshot {
  const { weights } = untrainedSnapshot();
  return snapshotOf(
    weights.map((_, i) => Math.sin(i * 1.7) * 0.5),
    1,
  );
}
