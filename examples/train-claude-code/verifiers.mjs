/** What a rollout left behind is worth. Runs as a stateless task. */
import { readWorkFile } from "corral/actors";

const pay = (...steps) => steps.reduce((sum, [amount, ok]) => sum + (ok ? amount : 0), 0);

/** The part of the reward that the answer and the files earn; `tasks.mjs` adds what the calls earn. */
export async function verify({ workDir, params, finalText, completed }) {
  const { family, word, other, file, target } = params;
  const answer = (finalText ?? "").trim();
  const finished = completed && answer !== "";
  const content = async (name) => (await readWorkFile(workDir, name))?.trim();
  switch (family) {
    case "say":
      return pay([0.7, answer === word]);
    case "read":
      return pay([0.6, answer === word]);
    case "write": {
      const written = await content(file);
      const right = written === word;
      return pay([0.2, written !== undefined], [0.5, right], [0.2, right && finished]);
    }
    case "copy": {
      const written = await content(target);
      const right = written === word;
      return pay([0.1, written !== undefined], [0.4, right], [0.2, right && finished]);
    }
    default: {
      const right = (await content(file)) === other;
      return pay([0.4, right], [0.2, right && finished]);
    }
  }
}
