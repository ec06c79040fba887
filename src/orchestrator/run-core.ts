/**
 * The one loop behind `launch` and `corral run`: tasks into groups of delivered rollouts, over the actors of a run.
 *
 * C1. A slot is handed out once in a process: what the consumer settled is never run again, what an earlier process
 *     finished is delivered from the journal, the rest runs under a new attempt.
 * C2. An earlier process's pass is gone on with when the same tasks are asked for in groups of the same size; of other
 *     passes, what was finished is delivered first, in groups that may be short.
 * C3. What a loop left (it went on after breaking out of an iteration) is rejected, not kept for ever.
 */
import { createHash } from "node:crypto";
import type { DeliveryReport, Recovery, RolloutSlot, Task } from "../actors/index.js";
import type { ActorLogger } from "../runtime/index.js";
import { AgentGates } from "./agent-gates.js";
import type { CaptureDecisions } from "./config/decisions.js";
import type { CorralConfig } from "./config/schema.js";
import { type GroupPlan, GroupStream, type SlotPlan } from "./group-stream.js";
import { pruneMasked } from "./masked-evidence.js";
import { PolicyUpdates } from "./policy-update.js";
import type { RemoteServing } from "./remote-serving.js";
import { slotKey, slotsOf } from "./rollout-ids.js";
import { RolloutRunner } from "./rollout-runner.js";
import { type RunActors, startActors } from "./run-actors.js";
import type { RunEventListener } from "./run-events.js";
import type { CheckedTask } from "./tasks.js";

export interface CoreRequest {
  readonly config: CorralConfig;
  readonly decisions: CaptureDecisions;
  readonly dir: string;
  readonly journalPath: string;
  /** Rows go to this file, in pass 0. Without it they go to a trainer. */
  readonly outPath?: string;
  /** A server of another process serves in place of our own. */
  readonly remote?: RemoteServing;
  readonly logger?: ActorLogger;
  readonly onEvent: RunEventListener;
}

/** What a group is about. */
export interface GroupAbout {
  readonly pass: number;
  readonly task: Task;
}

export interface GroupsRequest {
  readonly tasks: readonly CheckedTask[];
  readonly groupSize: number;
  /** Rollouts at a time. Default: what the agents allow. */
  readonly concurrency?: number;
  /** True: a pass of its own, whatever an earlier process left. */
  readonly apart?: boolean;
}

type Pending = Recovery["pending"][number];

export class RunCore implements AsyncDisposable {
  readonly actors: RunActors;
  readonly policies: PolicyUpdates;
  readonly runner: RolloutRunner;
  readonly recovery: Recovery;
  readonly #config: CorralConfig;
  readonly #gates: AgentGates;
  readonly #attempts: Map<string, number>;
  /** Finished by an earlier process and not handed out yet. */
  readonly #pending: Map<string, Pending>;
  #resumable: Recovery["passes"];
  readonly #streams = new Set<GroupStream<GroupAbout>>();
  /** Passes that were left, with what is finished of them (C3). */
  #left: { pass: number; rolloutIds: readonly string[] }[] = [];

  private constructor(request: CoreRequest, actors: RunActors, recovery: Recovery) {
    const { config, decisions, onEvent } = request;
    this.#config = config;
    this.actors = actors;
    this.recovery = recovery;
    this.policies = new PolicyUpdates(actors);
    const { selected } = decisions;
    const { policies } = this;
    this.runner = new RolloutRunner({ config, actors, policies, selected, onEvent });
    const agents = Object.entries(config.responses_api_agents);
    this.#gates = new AgentGates(
      Object.fromEntries(agents.map(([name, { concurrency }]) => [name, concurrency])),
    );
    this.#attempts = new Map(recovery.attempts.map((one) => [slotKey(one.slot), one.attempt + 1]));
    this.#pending = new Map(recovery.pending.map((one) => [slotKey(one.slot), one]));
    this.#resumable = recovery.passes;
  }

  /** Starts the actors and finishes what an earlier process began. */
  static async start(request: CoreRequest): Promise<RunCore> {
    const actors = await startActors(request);
    try {
      const recovery = await actors.consumer.call.recover();
      const abandoned = (await actors.store?.call.abandonOpen()) ?? [];
      if (abandoned.length > 0)
        request.onEvent({
          kind: "warning",
          message: `${abandoned.length} rollouts of an earlier process were open; they run again`,
        });
      // What waits to be handed out is no evidence yet.
      const waiting = recovery.pending.map(({ rolloutId }) => rolloutId);
      await pruneMasked(request.config, actors, { except: waiting });
      return new RunCore(request, actors, recovery);
    } catch (error) {
      await actors[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Rollouts of an earlier process that wait to be handed out. */
  get pendingCount(): number {
    return this.#pending.size;
  }

  /** Groups of pass 0: the slots that have no row in the file. */
  fileGroups({ tasks, groupSize, concurrency }: GroupsRequest): GroupStream<GroupAbout> {
    const done = new Set(this.recovery.delivered.map(slotKey));
    const plans = tasks.map((checked) => this.#plan(checked, groupSize, 0, (key) => done.has(key)));
    return this.#stream(plans, concurrency);
  }

  /** Groups of a trainer's pass (C1, C2). */
  async passGroups(
    request: GroupsRequest,
  ): Promise<{ stream: GroupStream<GroupAbout>; pass: number }> {
    const { tasks, groupSize, apart = false } = request;
    const { consumer } = this.actors;
    await this.#rejectLeft();
    const digest = passDigest(tasks, groupSize);
    const resumed = apart ? undefined : await this.#resumedPass(digest);
    const slots = tasks.length * groupSize;
    const pass = resumed?.pass ?? (await consumer.call.beginPass({ digest, slots }));
    const settled = new Set(resumed?.settled.map(slotKey));
    const plans = tasks.map((checked) =>
      this.#plan(checked, groupSize, pass, (key) => settled.has(key)),
    );
    const leftovers = apart ? [] : this.#leftovers();
    const stream = this.#stream([...leftovers, ...plans], request.concurrency);
    return { stream, pass };
  }

  /** No rollout starts any more. */
  stop(options: { readonly cancel: boolean }): void {
    for (const stream of this.#streams) stream.stop(options);
  }

  /** The stream ended: what it left waits for the next pass (C3). */
  end(stream: GroupStream<GroupAbout>, pass: number | undefined): void {
    this.#streams.delete(stream);
    const rolloutIds = stream.left.map(({ rolloutId }) => rolloutId);
    if (pass !== undefined) this.#left.push({ pass, rolloutIds });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop({ cancel: true });
    await this.actors[Symbol.asyncDispose]();
  }

  /** C2: of what an earlier process had open, the newest pass that asked the same; the others are left. */
  async #resumedPass(digest: string): Promise<Recovery["passes"][number] | undefined> {
    const passes = this.#resumable;
    this.#resumable = [];
    const resumed = passes.findLast((pass) => pass.digest === digest);
    const { consumer } = this.actors;
    for (const { pass } of passes) if (pass !== resumed?.pass) await consumer.call.leavePass(pass);
    return resumed;
  }

  async #rejectLeft(): Promise<void> {
    const left = this.#left;
    this.#left = [];
    const { consumer } = this.actors;
    for (const { pass, rolloutIds } of left) {
      if (rolloutIds.length > 0) await consumer.call.reject(rolloutIds, "left by the loop");
      await consumer.call.leavePass(pass);
    }
  }

  #stream(plans: readonly GroupPlan<GroupAbout>[], concurrency: number | undefined) {
    const places = Object.values(this.#config.responses_api_agents);
    const most = places.reduce((sum, agent) => sum + agent.concurrency, 0);
    const stream = new GroupStream(
      plans.filter(({ slots }) => slots.length > 0),
      { gates: this.#gates, concurrency: Math.min(concurrency ?? most, most) },
    );
    this.#streams.add(stream);
    return stream;
  }

  #plan(
    checked: CheckedTask,
    groupSize: number,
    pass: number,
    isDone: (key: string) => boolean,
  ): GroupPlan<GroupAbout> {
    const { task } = checked;
    const slots = slotsOf([task], groupSize, pass).filter((slot) => !isDone(slotKey(slot)));
    return {
      about: { pass, task },
      slots: slots.map((slot) => this.#slotPlan(checked, slot)),
    };
  }

  #slotPlan(checked: CheckedTask, slot: RolloutSlot): SlotPlan {
    const key = slotKey(slot);
    const pending = this.#pending.get(key);
    if (pending !== undefined) return this.#redelivery(pending);
    const firstAttempt = this.#attempts.get(key) ?? 0;
    return {
      slot,
      agent: checked.agent,
      work: (control) => this.runner.run({ slot, checked, firstAttempt, ...control }),
    };
  }

  #redelivery({ slot }: Pending): SlotPlan {
    this.#pending.delete(slotKey(slot));
    const work = (): Promise<DeliveryReport> => this.actors.consumer.call.redeliver(slot);
    return { slot, agent: null, work };
  }

  /** What is finished of passes that nobody goes on with, in groups by task. */
  #leftovers(): GroupPlan<GroupAbout>[] {
    const groups = new Map<string, { about: GroupAbout; slots: SlotPlan[] }>();
    for (const pending of this.#pending.values()) {
      const { pass, taskIndex } = pending.slot;
      const key = `${pass}.${taskIndex}`;
      const group = groups.get(key) ?? { about: { pass, task: pending.task }, slots: [] };
      groups.set(key, group);
      group.slots.push(this.#redelivery(pending));
    }
    return [...groups.values()];
  }
}

/** Names what a pass asks for. */
function passDigest(tasks: readonly CheckedTask[], groupSize: number): string {
  const asked = tasks.map(({ task, agent }) => ({ task, agent }));
  return createHash("sha256").update(JSON.stringify({ asked, groupSize })).digest("hex");
}
