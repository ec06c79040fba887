import { explainRollout, inspectRollout } from "../../index.js";
import { printText } from "../output.js";
import { describeBreaks, describeTree } from "../rollout-text.js";

export interface RolloutOptions {
  readonly entries?: string;
  readonly dir?: string;
  readonly server?: string;
  readonly json?: boolean;
}

/** Why the calls of a rollout are not one chain. */
export async function explainCommand(rollout: string, options: RolloutOptions): Promise<number> {
  const explained = await explainRollout(rollout, options);
  const { breaks, build } = explained;
  const { metrics, masked } = build;
  const json = { rollout_id: rollout, masked, metrics, breaks };
  await printText(options.json ? `${JSON.stringify(json)}\n` : describeBreaks(explained));
  return 0;
}

/** The calls of a rollout as a tree. */
export async function inspectRolloutCommand(
  rollout: string,
  options: RolloutOptions,
): Promise<number> {
  const tree = await inspectRollout(rollout, options);
  const { calls, build } = tree;
  const json = { rollout_id: rollout, masked: build.masked, metrics: build.metrics, calls };
  await printText(options.json ? `${JSON.stringify(json)}\n` : describeTree(tree));
  return 0;
}
