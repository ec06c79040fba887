/** An actor without a thread: its dispatcher and any number of callers in this one, over real message ports. */
import { MessageChannel } from "node:worker_threads";
import { Connection } from "../../src/runtime/connection.js";
import { type ActorSpec, defineActor } from "../../src/runtime/define-actor.js";
import { describeActor } from "../../src/runtime/descriptor.js";
import { Dispatcher } from "../../src/runtime/dispatch.js";
import type { DeathReport } from "../../src/runtime/errors.js";
import { createLastMethod } from "../../src/runtime/last-method.js";
import { resolveSpawnOptions, type SpawnOptions } from "../../src/runtime/options.js";
import {
  type ActorDescriptor,
  type ActorStart,
  type CallSpan,
  LANE_CELLS,
} from "../../src/runtime/protocol.js";
import { sharedCells } from "../../src/runtime/shared-places.js";
import { packParcel, unpack } from "../../src/runtime/wire-value.js";

export const report: DeathReport = {
  cause: "oom",
  exitCode: 1,
  lastLogs: [],
  uptimeMs: 1,
  restarts: 0,
};

const codec = {
  pack: (value: unknown) => packParcel(value, () => undefined),
  unpack: (packed: Parameters<typeof unpack>[0]) => unpack(packed, () => undefined),
};

/** The actor's side, one thread of it. */
export class RigThread {
  readonly start: ActorStart;
  readonly dispatcher: Dispatcher;
  readonly #ports: { close(): void }[] = [];

  constructor(actor: object, descriptor: ActorDescriptor, onSpan?: (span: CallSpan) => void) {
    this.start = {
      corral: "actor",
      actor: descriptor,
      module: "",
      definition: "a",
      options: { value: undefined },
      restartCount: 0,
      lastMethod: createLastMethod(),
      running: sharedCells(descriptor.groupLimits.length),
      trace: false,
    };
    this.dispatcher = new Dispatcher(actor, this.start, codec, onSpan);
  }

  connect({ connection, held }: RigCaller): void {
    const { port1, port2 } = new MessageChannel();
    const cells = sharedCells(LANE_CELLS.held + this.start.actor.groupLimits.length);
    this.#ports.push(port1, port2);
    this.dispatcher.serve({ port: port2, cells, held });
    connection.connect({ port: port1, cells, running: this.start.running });
  }

  /** The thread is gone: nothing it would still say is heard. */
  end(): void {
    for (const port of this.#ports.splice(0)) port.close();
  }
}

export interface RigCaller {
  readonly connection: Connection;
  readonly held: Int32Array;
}

export class Rig {
  readonly descriptor: ActorDescriptor;
  /** Ids of actors whose thread a call's `killAfterMs` ended. */
  readonly crashed: string[] = [];
  #onCrash: (() => void) | undefined;

  constructor(
    options: SpawnOptions = {},
    spec: Partial<ActorSpec<Record<string, unknown>, unknown>> = {},
  ) {
    const definition = defineActor<Record<string, unknown>, unknown>({
      module: import.meta.url,
      name: "a",
      create: () => ({}),
      ...spec,
    });
    this.descriptor = describeActor("a-1", definition, resolveSpawnOptions(options, "default"));
  }

  caller(newsWaitMs?: number): RigCaller {
    const held = sharedCells(1);
    const owner = {
      ...codec,
      crashActor: (id: string) => {
        this.crashed.push(id);
        this.#onCrash?.();
      },
    };
    return { connection: new Connection(this.descriptor, held, owner, newsWaitMs), held };
  }

  whenCrashed(): Promise<void> {
    return new Promise((resolve) => {
      this.#onCrash = resolve;
    });
  }

  thread(actor: object, onSpan?: (span: CallSpan) => void): RigThread {
    return new RigThread(actor, this.descriptor, onSpan);
  }
}

/** An actor whose calls stay open until the test ends them, and which tells of each start. */
export class Held {
  readonly started: unknown[] = [];
  readonly #ends: (() => void)[] = [];
  #waiting: { count: number; resolve: () => void }[] = [];

  readonly run = (key: unknown): Promise<unknown> => {
    this.started.push(key);
    const result = new Promise<unknown>((resolve) => this.#ends.push(() => resolve(key)));
    this.#waiting = this.#waiting.filter(({ count, resolve }) => {
      if (this.started.length < count) return true;
      resolve();
      return false;
    });
    return result;
  };

  /** Resolves when so many calls have started. */
  async startedCount(count: number): Promise<void> {
    if (this.started.length >= count) return;
    await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }));
  }

  /** Ends the call that started as number `index`. */
  end(index: number): void {
    this.#ends[index]?.();
  }
}

/** Lets every message that is on its way arrive, and its answer. */
export async function turns(count = 5): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}
