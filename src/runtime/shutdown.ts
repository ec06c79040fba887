/** Ordered shutdown: stage after stage to one deadline, then the task pool. */
import type { DeathReport } from "./errors.js";
import type { ActorRecord } from "./registry.js";
import type { Supervisor } from "./supervisor.js";
import type { TaskPool } from "./tasks.js";

/** What `shutdown` found. */
export interface ShutdownReport {
  readonly durationMs: number;
  /** In the order of their stages. */
  readonly actors: readonly { id: string; name: string | undefined; report: DeathReport }[];
  /** Ids of actors whose thread did not end when told to: each sits in a native call. */
  readonly stuckThreads: readonly string[];
}

/** Part of the deadline that each later stage keeps for itself. */
const RESERVE = 0.1;

export async function stopByStage(
  supervisor: Supervisor,
  tasks: TaskPool,
  deadlineMs: number,
): Promise<ShutdownReport> {
  const startedAt = performance.now();
  const elapsedMs = (): number => performance.now() - startedAt;
  const stages = byStage(supervisor.actors.living());
  const ended: ShutdownReport["actors"][number][] = [];
  const stuckThreads: string[] = [];
  for (const [index, stage] of stages.entries()) {
    const stageMs = stageBudgetMs(deadlineMs, elapsedMs(), stages.length - index - 1);
    await Promise.all(
      stage.map(async (record) => {
        const report = await stopActor(supervisor, record, stageMs);
        if (record.life?.stuck === true) stuckThreads.push(record.actor.id);
        ended.push({ id: record.actor.id, name: record.actor.name, report });
      }),
    );
  }
  await tasks.close(Math.max(0, deadlineMs - elapsedMs()));
  return { durationMs: Math.round(elapsedMs()), actors: ended, stuckThreads };
}

/** What the current stage may take: all that is left but the reserve of the later ones, and at least an even share. */
export function stageBudgetMs(deadlineMs: number, elapsedMs: number, laterStages: number): number {
  const leftMs = Math.max(0, deadlineMs - elapsedMs);
  return Math.max(leftMs / (laterStages + 1), leftMs - laterStages * RESERVE * deadlineMs);
}

function stopActor(
  supervisor: Supervisor,
  record: ActorRecord,
  deadlineMs: number,
): Promise<DeathReport> {
  const ref = supervisor.handleOf(record);
  // One that is still starting, or between two threads, has no running calls to wait for.
  return record.life?.state === "ALIVE" ? ref.stop({ deadlineMs }) : ref.kill();
}

function byStage(records: readonly ActorRecord[]): ActorRecord[][] {
  const stages = new Map<number, ActorRecord[]>();
  for (const record of records) {
    const stage = stages.get(record.stopStage);
    if (stage === undefined) stages.set(record.stopStage, [record]);
    else stage.push(record);
  }
  return [...stages.entries()].sort(([a], [b]) => a - b).map(([, stage]) => stage);
}
