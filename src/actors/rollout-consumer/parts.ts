import type { EvidenceParts } from "./capture-evidence.js";
import type { RolloutSealer } from "./options.js";
import type { PolicyName } from "./row.js";

/** What a consumer works with. */
export interface RolloutConsumerParts extends EvidenceParts {
  readonly journalPath: string;
  /** Undefined: rows go to a trainer. */
  readonly outPath?: string;
  readonly servers: readonly RolloutSealer[];
  /** Closes what was built for this consumer. */
  readonly onClose?: () => Promise<void>;
  readonly policy?: PolicyName;
}
