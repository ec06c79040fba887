/** Samples as a Parquet file with list columns, written by row groups so that a large export needs little memory. */
import { fileWriter, ParquetWriter } from "hyparquet-writer";
import type { TrainingSample } from "./training-sample.js";

type Column = readonly [
  name: string,
  type: "STRING" | "INT32" | "DOUBLE",
  list: boolean,
  of: (sample: TrainingSample) => unknown,
];

const COLUMNS: readonly Column[] = [
  ["rollout_id", "STRING", false, ({ rolloutId }) => rolloutId],
  ["chain", "INT32", false, ({ chain }) => chain],
  ["pass", "INT32", false, ({ pass }) => pass],
  ["task_index", "INT32", false, ({ taskIndex }) => taskIndex],
  ["rollout_index", "INT32", false, ({ rolloutIndex }) => rolloutIndex],
  ["attempt", "INT32", false, ({ attempt }) => attempt],
  ["num_turns", "INT32", false, ({ turns }) => turns],
  // −1: the row does not say.
  ["policy_version_min", "INT32", false, ({ policyVersion }) => policyVersion?.min ?? -1],
  ["policy_version_max", "INT32", false, ({ policyVersion }) => policyVersion?.max ?? -1],
  ["reward", "DOUBLE", false, ({ reward }) => reward],
  ["prompt_ids", "INT32", true, ({ promptIds }) => Array.from(promptIds)],
  ["response_ids", "INT32", true, ({ responseIds }) => Array.from(responseIds)],
  ["response_mask", "INT32", true, ({ responseMask }) => Array.from(responseMask)],
  ["rollout_log_probs", "DOUBLE", true, ({ logProbs }) => Array.from(logProbs)],
];

/** Rows of one group: some tens of MB with long rollouts. */
const GROUP_ROWS = 256;

export class ParquetRows {
  readonly #writer: ParquetWriter;
  #samples: TrainingSample[] = [];

  constructor(file: string) {
    this.#writer = new ParquetWriter({ writer: fileWriter(file), schema: schema() });
  }

  async add(sample: TrainingSample): Promise<void> {
    this.#samples.push(sample);
    if (this.#samples.length >= GROUP_ROWS) await this.#flush();
  }

  async close(): Promise<void> {
    await this.#flush();
    await this.#writer.finish();
  }

  async #flush(): Promise<void> {
    const samples = this.#samples;
    this.#samples = [];
    if (samples.length === 0) return;
    const columnData = COLUMNS.map(([name, , , of]) => ({ name, data: samples.map(of) }));
    await this.#writer.write({ columnData, rowGroupSize: GROUP_ROWS });
  }
}

function schema() {
  const required = "REQUIRED" as const;
  const scalar = (name: string, type: Column[1]) =>
    type === "STRING"
      ? {
          name,
          type: "BYTE_ARRAY" as const,
          converted_type: "UTF8" as const,
          repetition_type: required,
        }
      : { name, type, repetition_type: required };
  const columns = COLUMNS.flatMap(([name, type, list]) =>
    list
      ? [
          {
            name,
            num_children: 1,
            converted_type: "LIST" as const,
            repetition_type: required,
          },
          { name: "list", num_children: 1, repetition_type: "REPEATED" as const },
          scalar("element", type),
        ]
      : [scalar(name, type)],
  );
  return [{ name: "root", num_children: COLUMNS.length }, ...columns];
}
