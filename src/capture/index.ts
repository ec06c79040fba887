export * from "./contracts.js";
export * from "./conversation.js";
export * from "./errors.js";
export * from "./records.js";
