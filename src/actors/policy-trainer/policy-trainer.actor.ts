/** The trainer as an actor. Cheap to import: the tokenizer loads when one is created. */
import { defineActor } from "../../runtime/index.js";
import { type PolicyTrainerOptions, parsePolicyTrainerOptions } from "./options.js";
import type { PolicyTrainer } from "./policy-trainer.js";

export const policyTrainer = defineActor<PolicyTrainer, PolicyTrainerOptions>({
  module: import.meta.url,
  name: "policyTrainer",
  options: { parse: parsePolicyTrainerOptions },
  create: async (options) => {
    const { PolicyTrainer } = await import("./policy-trainer.js");
    return PolicyTrainer.open(options);
  },
});
