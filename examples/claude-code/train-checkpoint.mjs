/**
 * Trains the example's `policy.checkpoint` with GRPO in a simulator: `npm run build && node examples/claude-code/train-checkpoint.mjs`.
 *
 * Run it after every change to the grammar or the features: a checkpoint means nothing under others. Deterministic.
 * Of several seeds it keeps the one that is best on training words, then measures that one on words it never saw.
 */
import { parseArgs } from "node:util";
import {
  EmbeddedPolicy,
  initialOptimizer,
  loadQwen3Vocabulary,
  policyGradientUpdate,
  saveCheckpoint,
  snapshotOf,
  untrainedSnapshot,
} from "corral/embedded-policy";
import { firstPrompt, nextPrompt, readCompletion, workingDirectory } from "./training/prompts.mjs";
import { uniformStream } from "./training/random.mjs";
import { SimulatedWorkspace } from "./training/simulator.mjs";
import { drawTask, FAMILIES, reward } from "./training/tasks.mjs";

const { values: options } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    updates: { type: "string", default: "150" },
    out: { type: "string", default: new URL("policy.checkpoint", import.meta.url).pathname },
  },
});

const TASKS_PER_UPDATE = 3;
const GROUP_SIZE = 8;
const MAX_TURNS = 4;
/** Of reward per model call after the first. Much more makes the policy stop after one call. */
const CALL_COST = 0.003;
/** Added to a group's standard deviation: without it, groups that differ only in cost would get full advantages. */
const DEVIATION_FLOOR = 0.1;
const EVALUATION_TASKS = 60;

const vocabulary = await loadQwen3Vocabulary();
const policy = new EmbeddedPolicy(vocabulary);

/** Runs one rollout: `{ reward, calls: [{ promptIds, tokenIds }] }`. */
async function rollout(snapshot, task, prompt, uniform, temperature) {
  const workspace = new SimulatedWorkspace(workingDirectory, task.files);
  const calls = [];
  const toolCalls = [];
  let answer = null;
  let promptIds = prompt;
  while (calls.length < MAX_TURNS) {
    const seed = Math.floor(uniform() * 2 ** 32);
    const sampling = { temperature, topP: 1, topK: 0, seed, maxTokens: 256 };
    const { tokenIds } = policy.generate(snapshot, promptIds, sampling);
    calls.push({ promptIds, tokenIds });
    const completion = readCompletion(vocabulary, tokenIds);
    if (!completion.call) {
      answer = completion.answer;
      break;
    }
    const { name, input } = completion.call;
    const outcome = workspace.run(name, input);
    toolCalls.push({ name, ...outcome });
    promptIds = await nextPrompt(vocabulary, promptIds, tokenIds, outcome.result);
  }
  const files = Object.fromEntries(workspace.files);
  return { reward: reward(task, { files, calls: toolCalls, answer }), calls };
}

/** The group's rollouts as samples with GRPO advantages. */
function groupSamples(group) {
  const scores = group.map((r) => r.reward - CALL_COST * (r.calls.length - 1));
  const mean = scores.reduce((a, b) => a + b, 0) / scores.length;
  const variance = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length;
  return group.flatMap(({ calls }, i) => {
    const advantage = (scores[i] - mean) / (Math.sqrt(variance) + DEVIATION_FLOOR);
    return calls.map((call) => ({ ...call, advantage }));
  });
}

async function train(seed, updates) {
  const uniform = uniformStream(seed);
  let snapshot = untrainedSnapshot();
  let optimizer = initialOptimizer();
  let total = 0;
  for (let update = 0; update < updates; update++) {
    const samples = [];
    for (let i = 0; i < TASKS_PER_UPDATE; i++) {
      const family = FAMILIES[(update * TASKS_PER_UPDATE + i) % FAMILIES.length];
      const task = drawTask(uniform, family, "train");
      const prompt = await firstPrompt(vocabulary, task.prompt);
      const group = [];
      for (let g = 0; g < GROUP_SIZE; g++)
        group.push(await rollout(snapshot, task, prompt, uniform, 1));
      for (const { reward } of group) total += reward / (TASKS_PER_UPDATE * GROUP_SIZE);
      samples.push(...groupSamples(group));
    }
    ({ snapshot, optimizer } = policyGradientUpdate(policy, snapshot, optimizer, samples));
    if (update % 10 === 9) {
      console.log(
        `seed ${seed} updates ${update - 8}-${update + 1}: mean reward ${(total / 10).toFixed(3)}`,
      );
      total = 0;
    }
  }
  // float32 halves the file; what is measured below is what is saved.
  return snapshotOf(snapshot.weights.map(Math.fround), updates);
}

/** Mean reward by family and over all, of `EVALUATION_TASKS` tasks each. */
async function evaluate(snapshot, split, temperature) {
  const uniform = uniformStream(split === "train" ? 778 : 777);
  const means = {};
  for (const family of FAMILIES) {
    let sum = 0;
    for (let i = 0; i < EVALUATION_TASKS; i++) {
      const task = drawTask(uniform, family, split);
      const prompt = await firstPrompt(vocabulary, task.prompt);
      sum += (await rollout(snapshot, task, prompt, uniform, temperature)).reward;
    }
    means[family] = sum / EVALUATION_TASKS;
  }
  means.all = FAMILIES.reduce((sum, family) => sum + means[family], 0) / FAMILIES.length;
  return means;
}

function show(name, means) {
  const cells = Object.entries(means).map(([family, mean]) => `${family} ${mean.toFixed(3)}`);
  console.log(`${name}: ${cells.join("  ")}`);
}

show("untrained, held-out words, T=1", await evaluate(untrainedSnapshot(), "heldOut", 1));
let best;
for (const seed of options.seeds.split(",").map(Number)) {
  const snapshot = await train(seed, Number(options.updates));
  const means = await evaluate(snapshot, "train", 1);
  show(`seed ${seed}, training words, T=1`, means);
  if (!best || means.all > best.means.all) best = { seed, snapshot, means };
}
show(`kept seed ${best.seed}: held-out words, T=1`, await evaluate(best.snapshot, "heldOut", 1));
show(`kept seed ${best.seed}: held-out words, greedy`, await evaluate(best.snapshot, "heldOut", 0));
await saveCheckpoint(options.out, best.snapshot);
console.log(`${options.out} ${best.snapshot.digest}`);
