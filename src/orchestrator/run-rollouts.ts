/**
 * `corral run` as a function: tasks in, one durable row for each rollout out.
 *
 * T1. Config and tasks are checked whole before a folder is made or a thread is started.
 * T2. A start with the same `out` first delivers what was finished, closes what was open, then runs what is left.
 * T3. A stop (signal, deadline, too many masked rows) leaves a run that can be started again.
 */
import { createHash } from "node:crypto";
import type { ActorLogger } from "../runtime/index.js";
import { type CaptureDecisions, captureDecisions, rowSelection } from "./config/decisions.js";
import type { CorralConfig } from "./config/schema.js";
import { installedTokenSource } from "./installed-source.js";
import { readJsonLines } from "./jsonl.js";
import { attachServer, type RemoteServing, withServerCapture } from "./remote-serving.js";
import type { RunActors } from "./run-actors.js";
import { RunCore } from "./run-core.js";
import { openRunDirectory, type RunDirectory } from "./run-directory.js";
import type { RunEventListener } from "./run-events.js";
import { healthSigns, RunHealth } from "./run-health.js";
import type { RunStop } from "./run-stop.js";
import { RowTally, type RunSummary } from "./run-summary.js";
import { maskStop, StopWatch } from "./stop-watch.js";
import { loadTasks, type TaskSet, type TasksInput } from "./tasks.js";

export interface RunRolloutsRequest {
  readonly config: CorralConfig;
  readonly tasks: TasksInput;
  /** Path of the results. The same path goes on with the same run. */
  readonly out: string;
  /** Folder that verifiers of given tasks are resolved against; those of a file lie beside it. Default: the working directory. */
  readonly folder?: string;
  /** URL that `corral serve` printed: its models serve, and its capture block is used. */
  readonly server?: string;
  /** Gets the actors' records. Default: JSON lines on stderr. */
  readonly logger?: ActorLogger;
  /** Contract: must not throw. */
  readonly onEvent?: RunEventListener;
  /** Aborted: no rollout starts any more, those that run end by themselves. */
  readonly signal?: AbortSignal;
}

/**
 * Runs every rollout that has no row yet.
 * @throws ConfigError for what the user must mend, before any rollout starts.
 */
export async function runRollouts(request: RunRolloutsRequest): Promise<RunSummary> {
  const remote = request.server === undefined ? undefined : await attachServer(request.server);
  const config = remote === undefined ? request.config : withServerCapture(request.config, remote);
  const decisions = captureDecisions(config, installedTokenSource() !== undefined);
  const [conflict] = decisions.errors;
  if (conflict !== undefined) throw conflict;
  const tasks = await loadTasks(request.tasks, config, request.folder); // T1
  const directory = openRunDirectory(runDirectoryRequest(request, config, decisions, tasks));
  try {
    return await runIn(directory, { ...request, config }, decisions, tasks, remote);
  } finally {
    directory.release();
  }
}

function runDirectoryRequest(
  { out, server }: RunRolloutsRequest,
  config: CorralConfig,
  { target }: CaptureDecisions,
  tasks: TaskSet,
) {
  // The store of a server is the server's.
  const hasStore = target.kind === "store" && server === undefined;
  return {
    out,
    ...(hasStore ? { baseDir: target.dir } : {}),
    baseDirField: hasStore ? "token_id_capture.dir" : "--out",
    tasksDigest: tasks.digest,
    groupSize: config.rollout.group_size,
    configDigest: createHash("sha256").update(JSON.stringify(config)).digest("hex"),
  };
}

async function runIn(
  directory: RunDirectory,
  request: RunRolloutsRequest,
  decisions: CaptureDecisions,
  tasks: TaskSet,
  remote: RemoteServing | undefined,
): Promise<RunSummary> {
  const { config, onEvent = () => undefined, logger } = request;
  const warn = (message: string) => onEvent({ kind: "warning", message });
  const startedAtMs = performance.now();
  for (const message of decisions.warnings) warn(message);
  if (directory.configChanged) warn("the config is not the one that this run began with");

  const watch = new StopWatch(config);
  const health = new RunHealth(onEvent, decisions.rebuild);
  await using core = await RunCore.start({
    config,
    decisions,
    ...directory,
    ...(remote && { remote }),
    ...(logger && { logger }),
    onEvent: (event) => {
      watch.see(event);
      onEvent(event);
      health.see(event);
    },
  }); // T2
  const groupSize = config.rollout.group_size;
  const rollouts = tasks.tasks.length * groupSize;
  onEvent({
    kind: "run_start",
    runId: directory.runId,
    dir: directory.dir,
    rollouts,
    delivered: core.recovery.delivered.length,
    resumed: directory.resumed,
  });
  const groups = core.fileGroups({ tasks: tasks.tasks, groupSize });
  watch.attach(groups, request.signal);
  try {
    // The file is the trainer: the consumer hands a row off as soon as it is rebuilt.
    for await (const _ of groups);
  } finally {
    watch.detach();
  }
  const { actors, recovery } = core;
  await warnUnparsed(actors, warn);
  const redelivered = recovery.redelivered.length;
  return await summarise({
    config,
    directory,
    decisions,
    actors,
    watch,
    startedAtMs,
    rollouts,
    redelivered,
  });
}

interface Ended {
  readonly config: CorralConfig;
  readonly directory: RunDirectory;
  readonly decisions: CaptureDecisions;
  readonly actors: RunActors;
  readonly watch: StopWatch;
  readonly startedAtMs: number;
  readonly rollouts: number;
  readonly redelivered: number;
}

async function summarise(ended: Ended): Promise<RunSummary> {
  const { directory, decisions, actors, watch, rollouts } = ended;
  const wallMs = performance.now() - ended.startedAtMs;
  const tally = new RowTally(rowSelection(decisions));
  for await (const { value } of readJsonLines(directory.outPath, "--out")) tally.add(value);
  const { counted } = tally;
  const rowsOfThisProcess = watch.rows + ended.redelivered;
  return {
    ...counted,
    runId: directory.runId,
    remaining: rollouts - counted.rollouts,
    callsPerWorker: await callsPerWorker(actors),
    wallMs: Math.round(wallMs),
    rolloutsPerMinute: (60_000 * rowsOfThisProcess) / wallMs,
    stopped: stopOf(ended, counted),
    health: [...healthSigns(counted).values()],
    evaluationOnly: !Object.values(decisions.selected).includes(true),
  };
}

/** Too many masked rows are a stop also when no rollout is left, or when an earlier process wrote most of them. */
function stopOf(
  { config, watch, rollouts }: Ended,
  { rollouts: rows, captured, masked }: RowTally["counted"],
): RunStop | null {
  const stop = watch.stop ?? maskStop(config, captured, masked);
  return stop?.reason === "mask_fraction" || rows < rollouts ? stop : null;
}

/** Said at the end too: the warning of the worker is far up by then. */
async function warnUnparsed(actors: RunActors, warn: (message: string) => void): Promise<void> {
  const statuses = await Promise.all(
    [...actors.servers.values()].flat().map(({ ref }) => ref.call.status()),
  );
  const unparsed = statuses.reduce((sum, status) => sum + status.unparsedToolCalls, 0);
  const calls = statuses.reduce((sum, status) => sum + status.calls, 0);
  if (unparsed === 0) return;
  warn(
    `${unparsed} of ${calls} answers began a tool call that was not understood and was served as text; does the engine's family fit the model?`,
  );
}

async function callsPerWorker(actors: RunActors): Promise<Record<string, number>> {
  const workers = [...actors.servers.values()].flat();
  const calls = await Promise.all(
    workers.map(async ({ name, ref }) => [name, (await ref.call.status()).calls] as const),
  );
  return Object.fromEntries(calls);
}
