export {
  type BuildError,
  type BuildOptions,
  buildTrajectory,
  rebuildResponse,
  type TrajectoryBuild,
} from "./builder.js";
export * from "./contracts.js";
export * from "./conversation.js";
export * from "./errors.js";
export type { MaskReason, TerminalAttribution, TokenCaptureMetrics } from "./metrics.js";
export type { RebuiltResponse } from "./projection.js";
export * from "./records.js";
export type { Terminal } from "./terminal.js";
