export type { ScriptedAnswer } from "./answer.js";
export { isMockFault, MOCK_FAULTS, type MockFault } from "./faults.js";
export { type MockCall, MockEngine } from "./mock-engine.js";
export {
  MOCK_SHAPES,
  type MockEngineOptions,
  type MockShape,
} from "./options.js";
