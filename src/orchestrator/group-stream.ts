/**
 * Runs the slots of groups and gives each group when its last rollout is delivered: groups come out of order.
 *
 * G1. Back-pressure: no group begins while the groups that wait to be taken hold as many rollouts as may run at once.
 * G2. Leaving the iteration cancels what runs and resolves when nothing of it is left.
 * G3. A failure of O2 ends the iteration; a stop ends it when what runs has ended.
 */
import { setMaxListeners } from "node:events";
import type { DeliveryReport, RolloutSlot } from "../actors/index.js";
import type { AgentGates } from "./agent-gates.js";

/** What a slot's work needs to know of its stream. */
export interface StreamControl {
  readonly signal: AbortSignal;
  readonly isStopped: () => boolean;
}

export interface SlotPlan {
  readonly slot: RolloutSlot;
  /** Whose place the work takes; null when it runs no harness. */
  readonly agent: string | null;
  /** Undefined when it was cancelled. */
  work(control: StreamControl): Promise<DeliveryReport | undefined>;
}

export interface GroupPlan<T> {
  /** Handed through. */
  readonly about: T;
  readonly slots: readonly SlotPlan[];
}

export interface DeliveredGroup<T> {
  readonly about: T;
  /** In the order of the rollout index. */
  readonly reports: readonly DeliveryReport[];
}

interface RunningGroup<T> {
  readonly about: T;
  readonly todo: SlotPlan[];
  readonly reports: DeliveryReport[];
  running: number;
  begun: boolean;
  cancelled: boolean;
}

export interface GroupStreamOptions {
  readonly gates: AgentGates;
  /** Rollouts at a time, over all agents. */
  readonly concurrency: number;
}

export class GroupStream<T> implements AsyncIterable<DeliveredGroup<T>> {
  readonly #options: GroupStreamOptions;
  readonly #abort = new AbortController();
  readonly #control: StreamControl = {
    signal: this.#abort.signal,
    isStopped: () => this.#stopped,
  };
  /** Groups with slots to start, in order. */
  #waiting: RunningGroup<T>[];
  readonly #partial = new Set<RunningGroup<T>>();
  readonly #ready: RunningGroup<T>[] = [];
  #readyRollouts = 0;
  #running = 0;
  #stopped = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(plans: readonly GroupPlan<T>[], options: GroupStreamOptions) {
    this.#options = options;
    setMaxListeners(0, this.#abort.signal); // One for each rollout that runs.
    this.#waiting = plans.map(({ about, slots }) => ({
      about,
      todo: [...slots],
      reports: [],
      running: 0,
      begun: false,
      cancelled: false,
    }));
  }

  /** No rollout starts any more; those that run end by themselves, or are cancelled. Idempotent. */
  stop({ cancel }: { readonly cancel: boolean }): void {
    this.#stopped = true;
    if (cancel) this.#abort.abort();
    this.#changed();
  }

  /** Ends the iteration with an error and cancels what runs. */
  fail(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(String(error));
    this.stop({ cancel: true });
  }

  /** Rollouts that were delivered and not taken: of groups that did not fill, or that nobody asked for. */
  get left(): readonly DeliveryReport[] {
    return [...this.#ready, ...this.#partial].flatMap(({ reports }) => reports);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<DeliveredGroup<T>, void, undefined> {
    const unsubscribe = this.#options.gates.onFree(() => this.#pump());
    try {
      this.#pump();
      for (;;) {
        if (this.#failure !== undefined) throw this.#failure; // G3
        const group = this.#take();
        if (group !== undefined) yield group;
        else if (this.#running === 0 && (this.#stopped || this.#waiting.length === 0)) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      unsubscribe();
      this.stop({ cancel: true }); // G2
      while (this.#running > 0) await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  #take(): DeliveredGroup<T> | undefined {
    const group = this.#ready.shift();
    if (group === undefined) return undefined;
    const { about, reports } = group;
    this.#readyRollouts -= reports.length;
    this.#pump();
    const inOrder = reports.toSorted((a, b) => a.slot.rolloutIndex - b.slot.rolloutIndex);
    return { about, reports: inOrder };
  }

  #pump(): void {
    while (!this.#stopped && this.#running < this.#options.concurrency) {
      const next = this.#next();
      if (next === undefined) return;
      void this.#run(next.group, next.plan);
    }
  }

  /** The first slot that may start, with its place taken. */
  #next(): { group: RunningGroup<T>; plan: SlotPlan } | undefined {
    for (const group of this.#waiting) {
      if (!group.begun && this.#readyRollouts >= this.#options.concurrency) return undefined; // G1
      const at = group.todo.findIndex(
        ({ agent }) => agent === null || this.#options.gates.tryTake(agent),
      );
      const [plan] = at < 0 ? [] : group.todo.splice(at, 1);
      if (plan === undefined) continue;
      group.begun = true;
      this.#partial.add(group);
      if (group.todo.length === 0) this.#waiting = this.#waiting.filter((one) => one !== group);
      return { group, plan };
    }
    return undefined;
  }

  async #run(group: RunningGroup<T>, plan: SlotPlan): Promise<void> {
    this.#running++;
    group.running++;
    try {
      const report = await plan.work(this.#control);
      if (report === undefined) group.cancelled = true;
      else group.reports.push(report);
    } catch (error) {
      group.cancelled = true;
      this.fail(error);
    }
    this.#running--;
    group.running--;
    if (group.todo.length === 0 && group.running === 0 && !group.cancelled) {
      this.#partial.delete(group);
      this.#ready.push(group);
      this.#readyRollouts += group.reports.length;
    }
    if (plan.agent !== null) this.#options.gates.give(plan.agent);
    this.#pump();
    this.#changed();
  }

  #changed(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
