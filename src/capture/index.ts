export * from "./contracts.js";
export * from "./conversation.js";
export { canonicalJson, cumulativeDigest, entryDigest } from "./digest.js";
export { type EntryRow, encodeEntry } from "./entry-row.js";
export * from "./errors.js";
export { parseTokenEntry, tokenEntryToJson } from "./parse-entry.js";
export * from "./records.js";
export { acquireRunLock } from "./run-lock.js";
export {
  STORE_FILE_NAME,
  TokenCaptureStore,
  type TokenCaptureStoreOptions,
} from "./store.js";
export * from "./store-protocol.js";
export { StoreSink } from "./store-sink.js";
export { checkGeneration, type TokenLimits } from "./token-arrays.js";
