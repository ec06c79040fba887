// The process that is killed: one store actor, argv[3] workers, argv[4] rollouts in flight in each.
import { captureStore } from "corral/actors";
import { createRuntime } from "corral/runtime";
import { lanes } from "./lane.actor.mjs";

const [dir, workers, inFlight] = process.argv.slice(2);
const silent = { debug() {}, info() {}, warn: console.error, error: console.error };
const runtime = await createRuntime({ logger: silent });
const store = await runtime.spawn(captureStore, { dir }, { maxConcurrency: 256 });
const indices = Array.from({ length: Number(workers) }, (_, index) => index);
const refs = await Promise.all(indices.map((index) => runtime.spawn(lanes, { store, index })));
await Promise.all(refs.map((ref) => ref.call.run(Number(inFlight))));
