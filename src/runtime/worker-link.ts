/** What an actor's thread asks of the main thread: other actors, tasks, log lines. */
import { StringDecoder } from "node:string_decoder";
import { inspect } from "node:util";
import type { MessagePort } from "node:worker_threads";
import { putShared } from "./buffers.js";
import { signalOrNever } from "./call-context.js";
import type { ValueCodec } from "./connection.js";
import type { ActorContext, TaskOptions } from "./define-actor.js";
import type { ActorLink } from "./directory.js";
import type { ActorLogger, LogLevel } from "./logger.js";
import type { ActorStart, Outcome, TaskRequest, ToMain } from "./protocol.js";
import { packTask, settleTask } from "./task-wire.js";

export class MainLink implements ActorLink {
  readonly #port: MessagePort;
  readonly #tasks = new Map<number, (outcome: Outcome) => void>();
  #lastTaskId = 0;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  connectActor(actorId: string, held: Int32Array): void {
    this.send({ kind: "actor-connect", actorId, held });
  }

  stopActor(actorId: string, deadlineMs: number): void {
    this.send({ kind: "actor-stop", actorId, deadlineMs });
  }

  killActor(actorId: string, restart: boolean): void {
    this.send({ kind: "actor-kill", actorId, restart });
  }

  runTask(task: TaskRequest, timeoutMs: number | undefined): Promise<Outcome> {
    const taskId = ++this.#lastTaskId;
    return new Promise((resolve) => {
      this.send({ kind: "task-start", taskId, task, timeoutMs });
      this.#tasks.set(taskId, resolve);
    });
  }

  endTask(taskId: number, outcome: Outcome): void {
    this.#tasks.get(taskId)?.(outcome);
    this.#tasks.delete(taskId);
  }

  send(message: ToMain): void {
    this.#port.postMessage(message);
  }
}

export function createContext(
  { actor, restartCount }: ActorStart,
  link: MainLink,
  codec: ValueCodec,
): ActorContext {
  return {
    actorId: actor.id,
    name: actor.name,
    restartCount,
    get signal() {
      return signalOrNever();
    },
    logger: createLogger(link, codec),
    put: putShared,
    async task<T>(
      module: string,
      exportName: string,
      args: readonly unknown[],
      options: TaskOptions = {},
    ): Promise<T> {
      const request = packTask(module, exportName, args);
      const outcome = await link.runTask(request, options.timeoutMs);
      return settleTask(request, outcome) as T;
    },
  };
}

function createLogger(link: MainLink, codec: ValueCodec): ActorLogger {
  const write = (level: LogLevel, fields: Record<string, unknown>, message: string): void => {
    try {
      link.send({ kind: "log", level, fields: codec.pack(fields).packed, message });
    } catch {
      // A field that cannot be sent must not fail the actor for wanting to log it.
      const text = { fields: inspect(fields, { depth: 3 }) };
      link.send({ kind: "log", level, fields: { value: text }, message: String(message) });
    }
  };
  return {
    debug: (fields, message) => write("debug", fields, message),
    info: (fields, message) => write("info", fields, message),
    warn: (fields, message) => write("warn", fields, message),
    error: (fields, message) => write("error", fields, message),
  };
}

/** Posts what the thread writes, at the time it writes it: Node's own streams lose it when the thread is ended. */
export function postOutput(link: MainLink): void {
  for (const stream of ["stdout", "stderr"] as const) {
    const decoder = new StringDecoder("utf8");
    process[stream].write = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      const text = typeof chunk === "string" ? chunk : decoder.write(Buffer.from(chunk));
      link.send({ kind: "output", stream, text });
      const done = rest.at(-1);
      if (typeof done === "function") process.nextTick(done as () => void);
      return true;
    };
  }
}
