/**
 * The example's four task families with drawn words and files, and their rewards.
 *
 * The sentences are those of `../tasks.jsonl`; its words and file names are held out here, so that a trained policy has
 * never seen them. What it learns is these sentences, nothing more.
 */
export const FAMILIES = ["say", "write", "read", "copy"];

const words = (text) => text.split(" ");

/** Words and file names of each split. */
export const SPLITS = {
  train: {
    words: words(
      "apple banana cherry maple walnut river stone copper silver velvet orange basil ginger pepper tulip falcon rabbit tiger otter badger lemon mango olive papaya cedar",
    ),
    files: words("notes.txt data.txt log.md todo.txt info.md list.txt memo.txt report.md"),
  },
  heldOut: {
    words: words(
      "quartz marble heron lizard violet clover hazel pigeon turnip radish saffron juniper cobalt amber beaver",
    ),
    files: words("plan.txt draft.md index.txt record.md agenda.txt"),
  },
};

/** Family → how a task is asked for. */
export const SENTENCES = {
  say: [
    ({ word }) => `Reply with the word ${word} only.`,
    ({ word }) => `Please answer with just the word ${word} now.`,
  ],
  write: [
    ({ word, file }) => `Write the word ${word} into the file ${file}.`,
    ({ word, file }) => `Create the file ${file} containing the word ${word}.`,
  ],
  read: [
    ({ file }) => `Read the file ${file} and answer with its content.`,
    ({ file }) => `What is in the file ${file}? Answer with its content.`,
  ],
  copy: [
    ({ file, target }) => `Read the file ${file}, then write its content to ${target}.`,
    ({ file, target }) => `Copy the content of the file ${file} to ${target}.`,
  ],
};

/** Draws a task: `{ family, prompt, files, word, file, target }`. */
export function drawTask(uniform, family, split) {
  const pick = (list) => list[Math.floor(uniform() * list.length)];
  const { words: allWords, files: allFiles } = SPLITS[split];
  const word = pick(allWords);
  const file = pick(allFiles);
  const target = pick(allFiles.filter((name) => name !== file));
  const slots = { word, file, target };
  const hasFile = family === "read" || family === "copy";
  const prompt = pick(SENTENCES[family])(slots);
  return { family, prompt, files: hasFile ? { [file]: word } : {}, ...slots };
}

/**
 * Reward in [0, 1], a ladder: each step towards the goal pays, the last one for finishing within the turn limit.
 *
 * `outcome` is `{ files, calls: [{ name, ok, result }], answer }`; `answer` is null at the turn limit.
 */
export function reward(task, { files, calls, answer }) {
  const pay = (...steps) => steps.reduce((sum, [amount, ok]) => sum + (ok ? amount : 0), 0);
  const is = (text) => (text ?? "").trim() === task.word;
  const finished = answer !== null;
  const worked = calls.some((call) => call.ok);
  const seen = calls.some(({ ok, name, result }) => {
    return ok && (name === "Read" || name === "Bash") && result.includes(task.word);
  });
  const written = files[task.family === "write" ? task.file : task.target];
  switch (task.family) {
    case "say":
      return pay([0.3, calls.length === 0 && finished], [0.7, is(answer)]);
    case "write":
      return pay(
        [0.1, worked],
        [0.2, written !== undefined],
        [0.5, is(written)],
        [0.2, finished && is(written)],
      );
    case "read":
      return pay([0.1, worked], [0.3, seen], [0.6, is(answer)]);
    case "copy":
      return pay(
        [0.1, worked],
        [0.2, seen],
        [0.1, written !== undefined],
        [0.4, is(written)],
        [0.2, finished && is(written)],
      );
    default:
      throw new Error(`no task family ${task.family}`);
  }
}
