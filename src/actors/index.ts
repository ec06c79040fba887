export * from "./rollout.js";
