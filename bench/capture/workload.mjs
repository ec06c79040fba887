// Calls as an agentic harness makes them: each prompt is the one before, its answer and something new.

/** Token counts of a rollout's calls. */
export const SHAPES = {
  /** Reads and edits files: long prompts. */
  long: { calls: 60, firstPrompt: 4096, perCall: 300, generated: 300 },
  /** A small tool loop. */
  short: { calls: 10, firstPrompt: 300, perCall: 60, generated: 60 },
  /** One million tokens in a thousand calls. */
  endless: { calls: 1000, firstPrompt: 1000, perCall: 700, generated: 300 },
};

const VOCABULARY = 151_643;
const TEXT = "The file holds the word heron, as it should; now for the next one. ".repeat(16);

/** A small generator of pseudo-random numbers in [0, 1). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The entries of one rollout, made one at a time. Log probabilities are float32, as inference servers send them. */
export function* callsOf(rolloutId, shape, seed) {
  const next = random(seed);
  const ids = (length) => Int32Array.from({ length }, () => Math.floor(next() * VOCABULARY));
  let prompt = ids(shape.firstPrompt);
  for (let call = 0; call < shape.calls; call += 1) {
    const generation = ids(shape.generated);
    const callId = `${rolloutId}-c${call}`;
    yield {
      schema_version: 1,
      rollout_id: rolloutId,
      model_call_id: callId,
      model: "policy",
      prompt_token_ids: prompt,
      generation_token_ids: generation,
      generation_log_probs: Float64Array.from(generation, () => Math.fround(-3 * next())),
      output_items: [
        {
          type: "message",
          id: `msg-${callId}`,
          role: "assistant",
          content: [{ type: "output_text", text: TEXT }],
        },
      ],
      token_item_index: 0,
      created_at: 1_700_000_000 + call,
      finish_reason: "stop",
      parent_resolution: call === 0 ? "ROOT" : "RESOLVED",
      ...(call === 0 ? {} : { parent_call_id: `${rolloutId}-c${call - 1}` }),
    };
    const longer = new Int32Array(prompt.length + generation.length + shape.perCall);
    longer.set(prompt);
    longer.set(generation, prompt.length);
    longer.set(ids(shape.perCall), prompt.length + generation.length);
    prompt = longer;
  }
}

/** Prompt and generated tokens, each prompt counted at every call. */
export function capturedTokens({ calls, firstPrompt, perCall, generated }) {
  const prompts = calls * firstPrompt + ((calls - 1) * calls * (perCall + generated)) / 2;
  return prompts + calls * generated;
}
