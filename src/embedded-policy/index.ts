export { ByteLevelVocabulary } from "./byte-level-vocabulary.js";
export { loadCheckpoint, saveCheckpoint } from "./checkpoint.js";
export { PolicyError, type PolicyErrorCode } from "./errors.js";
export type { PolicySample, ReplayFigures } from "./gradient.js";
export {
  groupAdvantages,
  groupSamples,
  type LearningRate,
  learningRateAt,
  type RolloutCall,
  type ScoredRollout,
} from "./grpo.js";
export { EmbeddedPolicy } from "./policy.js";
export { loadTrainerState, saveTrainerState, type TrainerState } from "./trainer-state.js";
export * from "./types.js";
export {
  initialOptimizer,
  type OptimizerState,
  type PolicyUpdate,
  policyGradientUpdate,
  type UpdateOptions,
} from "./update.js";
export { loadQwen3Vocabulary, Qwen3Vocabulary, qwen3ChatTemplate } from "./vocabulary.js";
export { snapshotOf, untrainedSnapshot } from "./weights.js";
