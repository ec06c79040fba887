// Delivers the rollouts of a results file from another process: node deliver.mjs URL ROLLOUTS.jsonl TRAINABLE.jsonl
//
// It needs the capture layer alone: no server, no threads, no tokenizer. For a run with rebuild_response: false, whose
// rows have an id and a text and whose records lie in the data plane.
import { appendFile, open } from "node:fs/promises";
import { deliverRollout } from "corral/capture";
import { HttpSource } from "./adapter.mjs";

const [url, rolloutsPath, trainablePath] = process.argv.slice(2);
const source = new HttpSource({ url });
const counts = { delivered: 0, masked: 0, retired: 0 };
const rollouts = await open(rolloutsPath);
for await (const line of rollouts.readLines()) {
  const write = (row) => appendFile(trainablePath, `${JSON.stringify(row)}\n`, { flush: true });
  const { built, retired } = await deliverRollout(JSON.parse(line), source, write);
  counts.delivered += 1;
  if (built.masked) counts.masked += 1;
  if (retired) counts.retired += 1;
}
await source.close();
console.log(JSON.stringify(counts));
