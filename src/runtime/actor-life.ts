/**
 * One actor from its first thread to its last death: starts a thread, and another one when it dies of itself.
 *
 * R4. A restart runs `create` again with the same options, after the policy's wait. Over the limit, or when somebody
 *     asked for the end, the actor is DEAD with the report of its last thread. A first start that fails is not
 *     repeated: its caller is told.
 * F1. Every change of state is told once, in order; after DEAD nothing is.
 */
import { type ActorRequest, ActorThread, type ThreadLimits } from "./actor-thread.js";
import type { DeathReport } from "./errors.js";
import { createLastMethod } from "./last-method.js";
import type { LogLevel } from "./logger.js";
import type { ActorStart, CallSpan } from "./protocol.js";
import type { RestartPolicy } from "./restart-policy.js";
import { sharedCells } from "./shared-places.js";
import type { PackedValue } from "./wire-value.js";

export type ActorState = "PENDING_CREATION" | "ALIVE" | "RESTARTING" | "DEAD";

/** What all threads of an actor start with. */
export type ActorBirth = Omit<ActorStart, "corral" | "restartCount" | "lastMethod" | "running">;

/** Contract: must not throw. */
export interface LifeEvents {
  onAlive(): void;
  onRestarting(report: DeathReport, waitMs: number): void;
  onDead(report: DeathReport): void;
  onRequest(request: ActorRequest): void;
  onLog(level: LogLevel, fields: PackedValue, message: string): void;
  onSpans(spans: readonly CallSpan[]): void;
}

interface LifeLimits extends ThreadLimits {
  readonly startTimeoutMs: number;
}

export class ActorLife {
  state: ActorState = "PENDING_CREATION";
  restarts = 0;
  report: DeathReport | undefined;
  /** Undefined between two threads and after the last. */
  thread: ActorThread | undefined;
  /** True when the last thread was asked to die and did not. */
  stuck = false;
  /** Calls that run in the present thread, for each group. */
  running: Int32Array;
  /** Resolves true when the actor is ready for the first time, false when it died before. */
  readonly started: Promise<boolean>;
  #birth: ActorBirth;
  readonly #limits: LifeLimits;
  readonly #policy: RestartPolicy;
  readonly #events: LifeEvents;
  #resolveStarted: (ready: boolean) => void = () => {};
  #waiting: NodeJS.Timeout | undefined;
  /** Somebody asked for the end. */
  #final = false;

  /** @throws DataCloneError when the options cannot be cloned. */
  constructor(birth: ActorBirth, limits: LifeLimits, policy: RestartPolicy, events: LifeEvents) {
    this.#birth = birth;
    this.#limits = limits;
    this.#policy = policy;
    this.#events = events;
    this.running = sharedCells(birth.actor.groupLimits.length);
    this.started = new Promise((resolve) => {
      this.#resolveStarted = resolve;
    });
    this.#startThread();
  }

  /** Stops the present thread in order; an actor between two threads is dead at once. */
  stop(deadlineMs: number): void {
    this.#final = true;
    if (this.thread === undefined) this.#giveUpRestart();
    else this.thread.stop(deadlineMs);
  }

  /** @param restart The end counts as a crash. */
  kill(restart: boolean): void {
    this.#final ||= !restart;
    if (this.thread !== undefined) this.thread.kill(restart);
    else if (!restart) this.#giveUpRestart();
  }

  #startThread(): void {
    this.running = sharedCells(this.#birth.actor.groupLimits.length);
    const start: ActorStart = {
      ...this.#birth,
      corral: "actor",
      restartCount: this.restarts,
      lastMethod: createLastMethod(),
      running: this.running,
    };
    const thread = new ActorThread(start, this.#limits, this.#events);
    this.thread = thread;
    void this.#live(thread);
  }

  async #live(thread: ActorThread): Promise<void> {
    if (await thread.whenReady(this.#limits.startTimeoutMs)) {
      this.state = "ALIVE";
      this.#events.onAlive();
      this.#resolveStarted(true);
    }
    const report = { ...(await thread.dead), restarts: this.restarts };
    this.thread = undefined;
    this.stuck = thread.stuck;
    const waitMs = this.#mayRestart(thread) ? this.#policy.next(performance.now()) : undefined;
    if (waitMs === undefined) this.#die(report);
    else this.#restartAfter(waitMs, report);
  }

  #mayRestart(thread: ActorThread): boolean {
    if (this.#final || this.state === "PENDING_CREATION") return false;
    // A `create` that fails at a restart is one more death nobody asked for.
    return thread.crashed || this.state === "RESTARTING";
  }

  #restartAfter(waitMs: number, report: DeathReport): void {
    this.state = "RESTARTING";
    this.report = report;
    this.#events.onRestarting(report, waitMs);
    this.#waiting = setTimeout(() => {
      this.restarts += 1;
      try {
        this.#startThread();
      } catch (error) {
        // No memory for a thread, for one: `new Worker` itself throws.
        this.#die({ ...report, error, restarts: this.restarts });
      }
    }, waitMs);
  }

  #giveUpRestart(): void {
    if (this.state !== "RESTARTING" || this.report === undefined) return;
    clearTimeout(this.#waiting);
    this.#die(this.report);
  }

  #die(report: DeathReport): void {
    this.state = "DEAD";
    this.report = report;
    // The dead are kept for their reports; what they were made of may be large.
    this.#birth = { ...this.#birth, options: { value: undefined } };
    this.#events.onDead(report);
    this.#resolveStarted(false);
  }
}
