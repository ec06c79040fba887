/**
 * The only entry of actor threads: imports the definition, makes the actor, serves its holders, lives until stopped.
 * A module that fails, a missing definition and a `create` that throws travel as data, with their cause.
 */
import { isMainThread, type MessagePort, parentPort, workerData } from "node:worker_threads";
import { type ActorDefinition, isActorDefinition } from "./define-actor.js";
import { ActorDirectory } from "./directory.js";
import { Dispatcher } from "./dispatch.js";
import { encodeThrown } from "./error-wire.js";
import { loadModule } from "./load-module.js";
import type { ActorLane, ActorStart, ToActor, ToMain } from "./protocol.js";
import { SpanBatch } from "./span-batch.js";
import { createContext, MainLink, postOutput } from "./worker-link.js";

const start = workerData as ActorStart;
if (isMainThread || parentPort === null || start?.corral !== "actor")
  throw new Error("This module is the entry of Corral's actor threads; it runs nowhere else.");
const mainPort: MessagePort = parentPort;

const link = new MainLink(mainPort);
const directory = new ActorDirectory(link);
const spans = start.trace
  ? new SpanBatch((batch) => send({ kind: "spans", spans: batch }))
  : undefined;
const lanesWaiting: ActorLane[] = [];
let dispatcher: Dispatcher | undefined;

postOutput(link);

// Node ends the thread after this; only here it says whether a rejection was the origin.
process.on("uncaughtExceptionMonitor", (error, origin) => {
  send({
    kind: "uncaught",
    rejection: origin === "unhandledRejection",
    error: encodeThrown(error),
  });
});
process.on("exit", () => spans?.flush());

mainPort.on("message", (message: ToActor) => {
  switch (message.kind) {
    case "holder-connect":
      if (dispatcher === undefined) lanesWaiting.push(message.lane);
      else dispatcher.serve(message.lane);
      return;
    case "places-freed":
      dispatcher?.onPlacesFreed();
      return;
    case "ping":
      send({ kind: "pong" });
      return;
    case "actor-lane":
    case "actor-restarting":
    case "actor-end":
      directory.tell(message);
      return;
    case "task-end":
      link.endTask(message.taskId, message.outcome);
      return;
    case "stop":
      stopRequested();
      return;
  }
});

let stopRequested: () => void = () => process.exit(0);

try {
  const definition = await findDefinition();
  const options = directory.unpack(start.options);
  const actor = await definition.create(options, createContext(start, link, directory));
  if (typeof actor !== "object" || actor === null)
    throw new TypeError(
      `create of "${definition.name}" returned ${String(actor)}; return an object`,
    );
  const onSpan = spans === undefined ? [] : [spans.add.bind(spans)];
  const serving = new Dispatcher(actor, start, directory, ...onSpan);
  stopRequested = () => void stop(serving, definition, actor);
  dispatcher = serving;
  for (const lane of lanesWaiting) serving.serve(lane);
  send({ kind: "ready" });
} catch (error) {
  send({ kind: "start-error", error: encodeThrown(error) });
  process.exit(1);
}

async function findDefinition(): Promise<ActorDefinition<object, unknown>> {
  const module = await loadModule(start.module);
  for (const value of Object.values(module))
    if (isActorDefinition(value) && value.name === start.definition) return value;
  throw new Error(`${start.module} exports no actor definition named "${start.definition}"`);
}

async function stop(
  serving: Dispatcher,
  definition: ActorDefinition<object, unknown>,
  actor: object,
): Promise<void> {
  await serving.close();
  try {
    await definition.stop?.(actor);
  } catch (error) {
    send({ kind: "stop-error", error: encodeThrown(error) });
  }
  // The last answers are posted some microtasks after their calls have ended.
  setImmediate(() => process.exit(0));
}

function send(message: ToMain): void {
  mainPort.postMessage(message);
}
