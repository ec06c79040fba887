/**
 * Claude Code learns: `npm run build && node examples/train-claude-code/train.mjs [--fast] [--minutes 10] [--seed 1]`.
 *
 * Each step asks for a few groups of rollouts, takes one policy-gradient step on the captured ids, saves the checkpoint,
 * accepts the groups and pushes the new weights. Killed at any moment it goes on where it was: the checkpoint names the
 * slots it was trained on, and what comes again is accepted without being trained again.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createTrainer, launch, loadConfig } from "corral";
import { rewardPlot } from "./plot.mjs";
import { retokenised } from "./retokenise.mjs";
import { drawTask, FAMILIES, rewardOf, trainedReward, uniformStream } from "./tasks.mjs";

const { values: options } = parseArgs({
  options: {
    fast: { type: "boolean", default: false },
    minutes: { type: "string" },
    updates: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    out: { type: "string" },
    /** Trains on re-tokenised text instead of captured ids. */
    retokenised: { type: "boolean", default: false },
    evaluate: { type: "string", default: "10" },
  },
});

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const seed = Number(options.seed);
const minutes = Number(options.minutes ?? (options.fast ? 2 : 10));
const name = `${options.fast ? "fast" : "real"}${options.retokenised ? "-text" : ""}-${seed}`;
const out = path.resolve(options.out ?? here(`out/${name}`));
mkdirSync(out, { recursive: true });
const statePath = path.join(out, "trainer.state");

/** Two small groups and a step: with the same rollouts, more and smaller steps learn faster than fewer and larger ones. */
const TASKS_PER_STEP = 2;
/** Of a family's reward that the newest step has. */
const NEWS = 0.3;
/** A family that earns nothing is drawn three times as often as one that is learnt. */
const DRAWN = 1.5;
const silent = () => undefined;
const logger = { debug: silent, info: silent, warn: console.error, error: console.error };

const config = loadConfig([here("corral.yaml"), ...(options.fast ? [here("fast.yaml")] : [])]);
config.token_id_capture.dir = path.join(out, "runs");
config.responses_api_models.policy.engine.seed = seed;

/**
 * Adagrad's first steps are its largest. Taken whole, they make a policy so sure of what it learnt first (answer after a
 * read) that it never tries what another family needs (edit after a read): rewards are then equal and teach nothing.
 */
const TRAINING = { learningRate: { from: 0.1, to: 0.8, steps: 60 }, entropyBonus: 0.1 };
const trainer = await createTrainer({ resume: statePath, logger, ...TRAINING });
/** Everything that the loop must know to go on; kept with the weights. */
const state = trainer.notes ?? { step: 0, trained: [], curve: [], trainedS: 0, untrained: null };
const run = await launch(config, { name: "loop", folder: here("."), logger });

const mean = (values) => values.reduce((a, b) => a + b, 0) / Math.max(1, values.length);
const shown = (value) => (value === undefined ? "  –  " : value.toFixed(2).padStart(5));
const slotName = ({ pass, taskIndex, rolloutIndex }) => `${pass}.${taskIndex}.${rolloutIndex}`;

function drawWeighted(uniform, weights) {
  let draw = uniform() * weights.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [name, weight] of weights) {
    draw -= weight;
    if (draw < 0) return name;
  }
  return weights[0][0];
}

/** Families that have more left to learn come more often; the same step always draws the same tasks. */
function tasksOf(step, curve) {
  const uniform = uniformStream(seed * 100_003 + step);
  const level = Object.fromEntries(FAMILIES.map((family) => [family, 0]));
  for (const { byFamily } of curve)
    for (const [family, reward] of Object.entries(byFamily))
      level[family] += NEWS * (reward - level[family]);
  const left = new Set(FAMILIES);
  return Array.from({ length: TASKS_PER_STEP }, (_, index) => {
    const weights = [...left].map((family) => [family, DRAWN - level[family]]);
    const family = drawWeighted(uniform, weights);
    left.delete(family);
    return drawTask(uniform, family, "train", index);
  });
}

/** Mean reward by family, over tasks that are never trained on. */
async function evaluate(split) {
  const uniform = uniformStream(split === "train" ? 778 : 777);
  const tasks = FAMILIES.flatMap((family, at) =>
    Array.from({ length: Number(options.evaluate) }, (_, index) =>
      drawTask(uniform, family, split, at * 1000 + index),
    ),
  );
  const rewards = Object.fromEntries(FAMILIES.map((family) => [family, []]));
  for await (const group of run.rolloutGroups(tasks, { groupSize: 1 })) {
    for (const { row } of group.rollouts)
      if (group.trainable.includes(row)) rewards[row.verifier_params.family].push(rewardOf(row));
    await group.accept();
  }
  const means = Object.fromEntries(FAMILIES.map((family) => [family, mean(rewards[family])]));
  const all = mean(Object.values(means));
  run.report({ [`reward_${split === "train" ? "train_words" : "held_out"}`]: all });
  return { ...means, all };
}

/** One group into the trainer. */
async function learn(group, text) {
  if (!options.retokenised) return trainer.accumulate(group.trainable, trainedReward);
  const rollouts = [];
  for (const row of group.trainable) {
    const { calls, figures } = await retokenised(row, trainer.snapshot);
    for (const key of Object.keys(text)) text[key] += figures[key];
    rollouts.push({ reward: trainedReward(row), calls });
  }
  return trainer.accumulateRollouts(rollouts);
}

async function trainStep() {
  const startedMs = performance.now();
  const tasks = tasksOf(state.step, state.curve);
  const groups = [];
  const text = { calls: 0, changed: 0, impossible: 0, tokens: 0, klError: 0 };
  for await (const group of run.rolloutGroups(tasks)) {
    if (group.rollouts.some(({ slot }) => state.trained.includes(slotName(slot)))) {
      await group.accept(); // Trained before the last death, and not told.
      continue;
    }
    await learn(group, text);
    groups.push(group);
  }
  const update = await trainer.step();
  const rollouts = groups.flatMap((group) => group.rollouts);
  const byFamily = Object.fromEntries(
    groups.map(({ task, trainable }) => [
      task.verifier_params.family,
      mean(trainable.map(rewardOf)),
    ]),
  );
  const { figures } = update;
  const klError = options.retokenised
    ? text.klError / Math.max(1, text.tokens)
    : figures.klErrorSum / Math.max(1, figures.compared);
  const seconds = (performance.now() - startedMs) / 1000;
  state.step++;
  state.trainedS += seconds;
  state.trained = rollouts.map(({ slot }) => slotName(slot));
  state.curve.push({
    step: state.step,
    byFamily,
    mean: mean(Object.values(byFamily)),
    ...(options.retokenised ? { text } : {}),
  });
  await trainer.save(statePath, state);
  for (const group of groups) await group.accept();
  await run.updatePolicy(update.snapshot.version, () => update.snapshot);
  run.report({
    generation_kl_error: klError,
    // Text has no captured log probabilities to replay.
    ...(options.retokenised ? {} : { max_log_prob_difference: figures.maxLogProbDifference }),
    mixed_groups: update.mixedGroups,
    ...Object.fromEntries(
      Object.entries(byFamily).map(([family, value]) => [`reward_${family}`, value]),
    ),
  });
  return { byFamily, rollouts, klError, figures, seconds };
}

function printRow({ byFamily, rollouts, klError, figures, seconds }) {
  const masked = rollouts.filter(({ row }) => row.mask_sample === true).length;
  const cells = [
    String(state.step).padStart(5),
    ...FAMILIES.map((family) => shown(byFamily[family])),
    shown(mean(state.curve.slice(-10).map((point) => point.mean))),
    `${((100 * masked) / Math.max(1, rollouts.length)).toFixed(0)} %`.padStart(6),
    klError.toExponential(1).padStart(9),
    (figures.tokens / seconds).toFixed(0).padStart(9),
    (rollouts.length / seconds).toFixed(1).padStart(11),
  ];
  console.log(cells.join("  "));
}

const endsAtMs = performance.now() + minutes * 60_000 - state.trainedS * 1000;
if (state.step === 0) {
  state.untrained = await evaluate("heldOut");
  console.log(`untrained, held-out words: ${JSON.stringify(state.untrained)}`);
} else await run.updatePolicy(trainer.snapshot.version, () => trainer.snapshot);
console.log(
  ` step  ${FAMILIES.map((family) => family.padStart(5)).join("  ")}  last10  masked   KL error  tokens/s  rollouts/s`,
);
let largestDifference = 0;
while (state.step < Number(options.updates) && performance.now() < endsAtMs) {
  const step = await trainStep();
  largestDifference = Math.max(largestDifference, step.figures.maxLogProbDifference);
  printRow(step);
}
writeFileSync(path.join(out, "reward.svg"), rewardPlot(state.curve, FAMILIES));

const quarter = Math.max(1, Math.floor(state.curve.length / 4));
/** Over the steps, and by family: harder families are drawn more often, so `all` weighs the five alike. */
function quarterOf(points) {
  const means = FAMILIES.flatMap((family) => {
    const rewards = points.flatMap(({ byFamily }) => byFamily[family] ?? []);
    return rewards.length === 0 ? [] : [[family, mean(rewards)]];
  });
  const all = mean(means.map(([, reward]) => reward));
  return { ...Object.fromEntries(means), all, steps: mean(points.map((point) => point.mean)) };
}
const summary = {
  name,
  updates: state.step,
  trained_s: Math.round(state.trainedS),
  first_quarter: quarterOf(state.curve.slice(0, quarter)),
  last_quarter: quarterOf(state.curve.slice(-quarter)),
  untrained_held_out: state.untrained,
  trained_held_out: await evaluate("heldOut"),
  trained_train_words: await evaluate("train"),
  ...(options.retokenised ? {} : { max_log_prob_difference: largestDifference }),
  stats: run.stats(),
};
writeFileSync(path.join(out, "summary.json"), `${JSON.stringify(summary, null, 2)}\n`);
console.log(JSON.stringify(summary, null, 2));
await run.close();
await trainer.close();
