/**
 * The timeline of a runtime as a Chrome trace (JSON array format), for Perfetto or chrome://tracing: one row for
 * each actor, one bar for each call, one mark for each change of state.
 *
 * X1. The file can be read at any moment: viewers take an array whose end is missing. After `close` it is valid JSON.
 * X2. A failing disk costs the timeline, never a call.
 */
import { type FileHandle, open } from "node:fs/promises";
import type { ActorLogger } from "./logger.js";
import type { ActorDescriptor, CallSpan } from "./protocol.js";

interface StateMark {
  readonly atMs: number;
  readonly actorId: string;
  readonly name: string | undefined;
  readonly state: string;
}

export class TraceFile {
  readonly #file: FileHandle;
  readonly #logger: ActorLogger;
  readonly #rows = new Map<string, number>();
  #writing: Promise<void>;
  #buffer: string[] = [];
  #failed = false;

  /** @throws an error of the file system */
  static async create(path: string, logger: ActorLogger): Promise<TraceFile> {
    return new TraceFile(await open(path, "w"), logger);
  }

  private constructor(file: FileHandle, logger: ActorLogger) {
    this.#file = file;
    this.#logger = logger;
    const process_name = { name: "corral" };
    this.#writing = this.#write(
      `[${JSON.stringify({ name: "process_name", ph: "M", pid: process.pid, args: process_name })}`,
    );
  }

  state({ atMs, actorId, name, state }: StateMark): void {
    const tid = this.#row({ id: actorId, name });
    this.#add({ name: state, cat: "actor", ph: "i", s: "t", ts: atMs * 1000, tid });
  }

  spans(actor: Pick<ActorDescriptor, "id" | "name">, spans: readonly CallSpan[]): void {
    const tid = this.#row(actor);
    for (const [name, startMs, endMs, failed] of spans) {
      const dur = (endMs - startMs) * 1000;
      this.#add({ name, cat: "call", ph: "X", ts: startMs * 1000, dur, tid, args: { failed } });
    }
  }

  /** Resolves when everything is written, or cannot be. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#write("\n]\n");
    await this.#file.close().catch(() => {});
  }

  #row({ id, name }: Pick<ActorDescriptor, "id" | "name">): number {
    let row = this.#rows.get(id);
    if (row === undefined) {
      row = this.#rows.size + 1;
      this.#rows.set(id, row);
      const label = name === undefined ? id : `${name} (${id})`;
      this.#add({ name: "thread_name", ph: "M", tid: row, args: { name: label } });
    }
    return row;
  }

  #add(event: object): void {
    this.#buffer.push(`,\n${JSON.stringify({ pid: process.pid, ...event })}`);
    if (this.#buffer.length === 1) this.#writing = this.#writing.then(() => this.#flush());
  }

  async #flush(): Promise<void> {
    const text = this.#buffer.join("");
    this.#buffer = [];
    await this.#write(text);
  }

  async #write(text: string): Promise<void> {
    if (this.#failed) return;
    try {
      await this.#file.appendFile(text);
    } catch (error) {
      this.#failed = true;
      this.#logger.warn({ err: error }, "the trace file cannot be written");
    }
  }
}
