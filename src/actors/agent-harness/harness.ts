import type { HarnessRequest, RolloutFailure } from "../rollout.js";

/** Where one rollout runs: directories of its own, removed at the end. */
export interface WorkingDirectory {
  /** Removed with everything below it. */
  readonly root: string;
  /** The harness's working directory; holds the task's files. It is `root` for a harness without a home. */
  readonly cwd: string;
  /** This and `temp` exist only for a harness that `hasHome`. */
  readonly home: string;
  readonly temp: string;
}

/** One run of a harness. */
export interface HarnessLaunch {
  readonly request: HarnessRequest;
  readonly prompt: string;
  readonly directory: WorkingDirectory;
  /** Aborted when the rollout is cancelled. The deadline is the harness's own to keep. */
  readonly signal: AbortSignal;
}

/** How a harness ended. */
export interface HarnessRun {
  readonly finalText: string | null;
  readonly finalMessageId: string | null;
  /** Null when the harness ended by itself and reported no error. */
  readonly failure: RolloutFailure | null;
  readonly exitCode: number | null;
  readonly stderrTail: string;
}

/** One kind of harness. */
export interface Harness {
  /** Who owns the files of a rollout; null when it is us. */
  readonly owner: ProcessOwner | null;
  /** It runs programs that need a home and a temp folder of their own. */
  readonly hasHome: boolean;
  /** Contract: settles only when nothing of the run is left; a failed run is a value, not a throw. */
  run(launch: HarnessLaunch): Promise<HarnessRun>;
}

/** The unprivileged user that a harness runs as. */
export interface ProcessOwner {
  readonly uid: number;
  readonly gid: number;
}
