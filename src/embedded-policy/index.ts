export { ByteLevelVocabulary } from "./byte-level-vocabulary.js";
export { loadCheckpoint, saveCheckpoint } from "./checkpoint.js";
export { PolicyError, type PolicyErrorCode } from "./errors.js";
export { EmbeddedPolicy } from "./policy.js";
export * from "./types.js";
export {
  initialOptimizer,
  type OptimizerState,
  type PolicySample,
  type PolicyUpdate,
  policyGradientUpdate,
  type UpdateOptions,
} from "./update.js";
export { loadQwen3Vocabulary, Qwen3Vocabulary, qwen3ChatTemplate } from "./vocabulary.js";
export { snapshotOf, untrainedSnapshot } from "./weights.js";
