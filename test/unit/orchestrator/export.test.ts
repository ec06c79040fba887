import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type ExportFormat,
  exportRollouts,
} from "../../../src/orchestrator/export/export-rollouts.js";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-export-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

/** A call: context that came since the last one, then what was sampled. */
interface Call {
  readonly context: readonly number[];
  readonly sampled: readonly number[];
  readonly logProbs: readonly number[];
}

const ids = (minLength: number) =>
  fc.array(fc.integer({ min: 0, max: 151_000 }), { minLength, maxLength: 12 });
const calls: fc.Arbitrary<Call[]> = fc.array(
  fc.record({ context: ids(1), sampled: ids(1) }).chain(({ context, sampled }) =>
    fc
      .array(fc.double({ min: -40, max: 0, noNaN: true }), {
        minLength: sampled.length,
        maxLength: sampled.length,
      })
      // JSON has no −0.
      .map((logProbs) => ({ context, sampled, logProbs: logProbs.map((value) => value + 0) })),
  ),
  { minLength: 1, maxLength: 4 },
);

function rowOf(chain: readonly Call[], index: number, masked = false) {
  const running: number[] = [];
  const output = chain.map(({ context, sampled, logProbs }) => {
    running.push(...context);
    const prompt = [...running];
    running.push(...sampled);
    return {
      type: "message",
      prompt_token_ids: prompt,
      generation_token_ids: sampled,
      generation_log_probs: logProbs,
    };
  });
  return {
    _ng_task_index: index,
    _ng_rollout_index: 1,
    _ng_rollout_id: `${index}-1`,
    _ng_pass: 3,
    responses_create_params: { input: "do it" },
    reward: index / 7,
    response: { object: "response", model: "policy", output },
    _ng_token_capture: {
      n_calls: chain.length,
      mask_reasons: [],
      policy_version: { min: 2, max: 5 },
    },
    ...(masked ? { mask_sample: true } : {}),
  };
}

/** What any reader must find again: every token, and who made it. */
function expected(chain: readonly Call[]) {
  const tokens = chain.flatMap(({ context, sampled }) => [...context, ...sampled]);
  const mask = chain.flatMap(({ context, sampled }) => [
    ...context.map(() => 0),
    ...sampled.map(() => 1),
  ]);
  const logProbs = chain.flatMap(({ context, logProbs }) => [...context.map(() => 0), ...logProbs]);
  return { tokens, mask, logProbs };
}

interface Read {
  readonly tokens: number[];
  readonly mask: number[];
  readonly logProbs: number[];
  readonly reward: number;
}

const lines = (file: string) =>
  fs
    .readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
const zeros = (list: readonly unknown[]) => list.map(() => 0);

/** Readers as each trainer's own loader takes the fields. */
const READERS: Record<ExportFormat, (file: string) => Read[] | Promise<Read[]>> = {
  gym: (file) =>
    lines(file).map(({ response, reward }) => {
      const tokens: number[] = [];
      const mask: number[] = [];
      const logProbs: number[] = [];
      for (const item of response.output) {
        const fresh = item.prompt_token_ids.slice(tokens.length);
        tokens.push(...fresh, ...item.generation_token_ids);
        mask.push(...zeros(fresh), ...item.generation_token_ids.map(() => 1));
        logProbs.push(...zeros(fresh), ...item.generation_log_probs);
      }
      return { tokens, mask, logProbs, reward };
    }),
  verl: (file) =>
    lines(file).map((line) => ({
      tokens: [...line.prompt_ids, ...line.response_ids],
      mask: [...zeros(line.prompt_ids), ...line.response_mask],
      logProbs: [...zeros(line.prompt_ids), ...line.rollout_log_probs],
      reward: line.reward_score,
    })),
  trl: (file) =>
    lines(file).map((line) => ({
      tokens: [...line.prompt_ids, ...line.completion_ids],
      mask: [...zeros(line.prompt_ids), ...line.env_mask],
      logProbs: [...zeros(line.prompt_ids), ...line.logprobs],
      reward: line.reward,
    })),
  slime: (file) =>
    lines(file).map((line) => {
      const context = zeros(line.tokens.slice(0, -line.response_length));
      expect(line.weight_versions).toEqual(["2", "5"]);
      return {
        tokens: line.tokens,
        mask: [...context, ...line.loss_mask],
        logProbs: [...context, ...line.rollout_log_probs],
        reward: line.reward,
      };
    }),
  parquet: async (file) => {
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
    return rows.map((row) => ({
      tokens: [...row["prompt_ids"], ...row["response_ids"]],
      mask: [...zeros(row["prompt_ids"]), ...row["response_mask"]],
      logProbs: [...zeros(row["prompt_ids"]), ...row["rollout_log_probs"]],
      reward: row["reward"],
    }));
  },
};

function write(rows: readonly unknown[]): string {
  const file = path.join(folder, "rollouts.jsonl");
  fs.writeFileSync(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return file;
}

describe.each(Object.keys(READERS) as ExportFormat[])("%s", (format) => {
  const out = () => path.join(folder, `out.${format}`);

  test("F1. read again, every token and its owner is the captured one", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(calls, { minLength: 1, maxLength: 5 }), async (chains) => {
        const rollouts = write(chains.map((chain, index) => rowOf(chain, index)));
        const report = await exportRollouts({ rollouts, format, out: out() });
        const read = await READERS[format](out());
        expect(read).toEqual(
          chains.map((chain, index) => ({ ...expected(chain), reward: index / 7 })),
        );
        expect(report).toMatchObject({
          rows: chains.length,
          exported: chains.length,
          skipped: 0,
          sampledTokens: chains.flat().reduce((sum, { sampled }) => sum + sampled.length, 0),
        });
      }),
      { numRuns: 25 },
    );
  });

  test("X1. rows that are not trainable are left out and counted", async () => {
    const chain = [{ context: [1], sampled: [2, 3], logProbs: [-1, -2] }];
    const hole = rowOf(chain, 2);
    hole.response.output[0]!.generation_log_probs = [-1];
    const rollouts = write([rowOf(chain, 0, true), rowOf(chain, 1), hole, "no row", null]);
    const report = await exportRollouts({ rollouts, format, out: out() });
    expect(report).toEqual({ rows: 5, exported: 1, skipped: 4, sampledTokens: 2 });
    expect(await READERS[format](out())).toHaveLength(1);
  });
});

test("all chains of a row are exported, each once; main gives the one that the row shows", async () => {
  const main = [{ context: [1], sampled: [2], logProbs: [-1] }];
  const side = [{ context: [7], sampled: [8, 9], logProbs: [-1, -1] }];
  const other = rowOf(side, 0);
  const row = {
    ...rowOf(main, 0),
    _ng_trajectories: [
      {
        purpose: "subagent",
        response: other.response,
        _ng_token_capture: other._ng_token_capture,
      },
    ],
  };
  const rollouts = write([row]);
  const out = path.join(folder, "out");
  await exportRollouts({ rollouts, format: "verl", out });
  expect(lines(out).map(({ response_ids }) => response_ids)).toEqual([[2]]);
  await exportRollouts({ rollouts, format: "verl", out, chains: "all" });
  expect(lines(out).map(({ response_ids }) => response_ids)).toEqual([[2], [8, 9]]);
  expect(lines(out).map(({ extra_fields }) => extra_fields.chain)).toEqual([0, 1]);
});

test("X2. a failed export leaves nothing, and the old file", async () => {
  const out = path.join(folder, "out");
  fs.writeFileSync(out, "old");
  const missing = path.join(folder, "missing");
  const request = { rollouts: missing, format: "verl", out } as const;
  await expect(exportRollouts(request)).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  expect(fs.readdirSync(folder)).toEqual(["out"]);
  expect(fs.readFileSync(out, "utf8")).toBe("old");
});

test("unknown formats and chains are refused by name", async () => {
  const rollouts = write([]);
  const out = path.join(folder, "out");
  const format = "csv" as ExportFormat;
  await expect(exportRollouts({ rollouts, format, out })).rejects.toThrow(
    '--format: "csv" is not valid; allowed: gym, verl, trl, slime, parquet',
  );
  const chains = "some" as "all";
  await expect(exportRollouts({ rollouts, format: "trl", out, chains })).rejects.toThrow(
    "allowed: main, all",
  );
});
