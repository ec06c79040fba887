import { explainRollout } from "../../index.js";
import { printText } from "../output.js";
import { describeBreaks } from "../rollout-text.js";

export interface RolloutOptions {
  readonly entries?: string;
  readonly dir?: string;
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
