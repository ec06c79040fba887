/**
 * Five families of tasks with drawn words and files, and what each step towards their goal is worth.
 *
 * A policy learns these sentences with these words and is measured on words that it never saw. Nothing here claims more.
 */
import { SENTENCES as SIMPLE_SENTENCES, SPLITS } from "../claude-code/training/tasks.mjs";

export { uniformStream } from "../claude-code/training/random.mjs";

export const FAMILIES = ["say", "write", "read", "copy", "edit"];

const SENTENCES = {
  ...SIMPLE_SENTENCES,
  edit: [
    ({ word, other, file }) => `Replace the word ${word} by ${other} in the file ${file}.`,
    ({ word, other, file }) => `In the file ${file}, change the word ${word} to ${other}.`,
  ],
};

/** Draws one task of a family as a line of tasks.jsonl. `uniform` gives numbers in [0, 1). */
export function drawTask(uniform, family, split, index) {
  const pick = (list) => list[Math.floor(uniform() * list.length)];
  const { words: allWords, files: allFiles } = SPLITS[split];
  const word = pick(allWords);
  const other = pick(allWords.filter((one) => one !== word));
  const file = pick(allFiles);
  const target = pick(allFiles.filter((name) => name !== file));
  const slots = { word, other, file, target };
  const hasFile = ["read", "copy", "edit"].includes(family);
  return {
    _ng_task_index: index,
    agent_ref: { name: "claude_code" },
    responses_create_params: { input: [{ role: "user", content: pick(SENTENCES[family])(slots) }] },
    ...(hasFile ? { files: { [file]: word } } : {}),
    verifier: "./verifiers.mjs#verify",
    verifier_params: { family, ...slots },
  };
}

/**
 * What the calls of a rollout are worth beside what its verifier paid: steps towards the goal that leave no trace in the
 * directory. With the verifier's part a finished task is worth 1.
 */
export function callCredit({ family, file, word }, calls, answered) {
  const pay = (...steps) => steps.reduce((sum, [amount, ok]) => sum + (ok ? amount : 0), 0);
  const isFile = (path) => typeof path === "string" && (path === file || path.endsWith(`/${file}`));
  const any = calls.length > 0;
  const looked = calls.some(({ name, input }) =>
    name === "Bash" ? input.command === `cat ${file}` : name === "Read" && isFile(input.file_path),
  );
  const edits = calls.filter(({ name, input }) => name === "Edit" && isFile(input.file_path));
  switch (family) {
    case "say":
      return pay([0.3, !any && answered]);
    case "write":
      return pay([0.1, any]);
    case "read":
      return pay([0.1, any], [0.3, looked]);
    case "copy":
      return pay([0.1, any], [0.2, looked]);
    default:
      return pay(
        [0.05, any],
        [0.15, looked],
        [0.1, edits.length > 0],
        [0.1, edits.some(({ input }) => input.old_string === word)],
      );
  }
}

/** Of reward per model call after the first. Much more makes the policy stop after one call. */
const CALL_COST = 0.003;

/** The reward that the policy is trained on: the verifier's part and the calls', from a row of the run. */
export function rewardOf(row) {
  const { output } = row.response;
  const calls = output
    .filter(({ type }) => type === "function_call")
    .map(({ name, arguments: json }) => ({ name, input: JSON.parse(json) }));
  return (
    (row.reward ?? 0) + callCredit(row.verifier_params, calls, output.at(-1)?.type === "message")
  );
}

/** `rewardOf` with a small price for every further call, so that detours do not pay. */
export function trainedReward(row) {
  return rewardOf(row) - CALL_COST * (row._ng_token_capture.n_calls - 1);
}
