/**
 * `corral doctor` as a function: starts each model and each agent of a config alone, makes one call of each model, and
 * says what works on this node. Everything it starts is stopped, and nothing of it is kept.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { type EngineReport, rolloutKey } from "../actors/index.js";
import { captureDecisions } from "./config/decisions.js";
import { unisolated } from "./config/isolation.js";
import type { CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { type RunActors, startActors } from "./run-actors.js";
import type { ServerWorker } from "./serving.js";

export interface DoctorCheck {
  /** What was looked at: `node`, `token_id_capture`, or the key of a model or an agent. */
  readonly name: string;
  readonly ok: boolean;
  /** What was found; what to do when it is not ok. */
  readonly detail: string;
  readonly warnings: readonly string[];
}

const MIN_NODE = [20, 19] as const;
const ROLLOUT_ID = "corral-doctor";
const UNISOLATED =
  "isolation is none, and its model is no embedded policy: what it writes runs with your rights";
const CALL_TIMEOUT_MS = 120_000;

/** Never throws because of what it finds. */
export async function examine(config: CorralConfig): Promise<DoctorCheck[]> {
  const checks = [checkNode(), checkDecisions(config)];
  if (checks.some(({ ok }) => !ok)) return checks;
  for (const name of Object.keys(config.responses_api_models)) {
    const only = pick(config, { responses_api_models: [name], responses_api_agents: [] });
    checks.push(
      await checked(`responses_api_models.${name}`, only, (run) => callModel(name, only, run)),
    );
  }
  for (const name of Object.keys(config.responses_api_agents)) {
    const only = pick(config, { responses_api_models: [], responses_api_agents: [name] });
    checks.push(
      await checked(`responses_api_agents.${name}`, only, async () => ({
        detail: "starts",
        warnings: unisolated(config).includes(name) ? [UNISOLATED] : [],
      })),
    );
  }
  return checks;
}

function checkNode(): DoctorCheck {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const ok = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1]);
  const needed = ok ? "" : `; ${MIN_NODE.join(".")} or newer is needed`;
  return { name: "node", ok, detail: `${process.versions.node}${needed}`, warnings: [] };
}

function checkDecisions(config: CorralConfig): DoctorCheck {
  const { target, selected, warnings, errors } = captureDecisions(config);
  const captured = Object.keys(selected).filter((name) => selected[name]);
  const detail = {
    off: "off: evaluation only",
    store: `to the store, of ${captured.join(", ") || "no agent"}`,
    module: `to a sink of the config, of ${captured.join(", ") || "no agent"}`,
  }[target.kind];
  const [error] = errors;
  return {
    name: "token_id_capture",
    ok: error === undefined,
    detail: error?.message ?? detail,
    warnings,
  };
}

type Chosen = Record<"responses_api_models" | "responses_api_agents", readonly string[]>;

function pick(config: CorralConfig, chosen: Chosen): CorralConfig {
  const only = <T>(all: Record<string, T>, names: readonly string[]) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)));
  return {
    ...config,
    responses_api_models: only(config.responses_api_models, chosen.responses_api_models),
    responses_api_agents: only(config.responses_api_agents, chosen.responses_api_agents),
  };
}

interface Finding {
  readonly detail: string;
  readonly warnings?: readonly string[];
}

async function checked(
  name: string,
  config: CorralConfig,
  look: (run: RunActors) => Promise<Finding>,
): Promise<DoctorCheck> {
  let folder: string | undefined;
  try {
    folder = temporaryFolder(config);
    const silent = () => undefined;
    await using run = await startActors({
      config,
      decisions: captureDecisions(config),
      dir: folder,
      journalPath: path.join(folder, "journal"),
      logger: { debug: silent, info: silent, warn: silent, error: silent },
    });
    const { detail, warnings = [] } = await look(run);
    return { name, ok: true, detail, warnings };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { name, ok: false, detail: message, warnings: [] };
  } finally {
    if (folder !== undefined) fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Where the runs' folders will be, so that it is that file system which is tried. */
function temporaryFolder(config: CorralConfig): string {
  const { enabled, dir } = config.token_id_capture;
  const base = enabled && dir !== undefined ? dir : os.tmpdir();
  try {
    fs.mkdirSync(base, { recursive: true });
    return fs.mkdtempSync(path.join(base, "doctor-"));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError("RUN_DIRECTORY", "token_id_capture.dir", `cannot be written: ${reason}`, {
      cause,
    });
  }
}

/** One call, captured where the engine can be; through HTTP, as a harness makes it. */
async function callModel(name: string, config: CorralConfig, run: RunActors): Promise<Finding> {
  const [worker] = run.servers.get(name) ?? [];
  if (worker === undefined) throw new Error("has no worker");
  const report = await worker.ref.call.engineReport();
  const captured = captureDecisions(config).target.kind !== "off" && report.capabilities.tokenIds;
  const epoch = captured ? ((await run.store?.call.open(ROLLOUT_ID))?.epoch ?? 0) : 0;
  await worker.ref.call.openRollout({ rolloutId: ROLLOUT_ID, epoch, captured });
  const startedAtMs = performance.now();
  await ask(name, worker, captured, rolloutKey(run.keySecret, ROLLOUT_ID, epoch));
  const ms = Math.round(performance.now() - startedAtMs);
  const ledger = await worker.ref.call.sealRollout(ROLLOUT_ID);
  if (captured && (ledger.recordedCallIds.length !== 1 || ledger.captureLost > 0))
    throw new Error("answers, but its call was not recorded: ids or log probabilities are wrong");
  const seen = captured ? await tokensOf(run) : "";
  const { kind } = config.responses_api_models[name]?.engine ?? { kind: "?" };
  return {
    detail: `${kind}: ${describe(report)}${seen}; one call took ${ms} ms`,
    warnings: report.warnings,
  };
}

async function ask(model: string, { url }: ServerWorker, captured: boolean, key: string) {
  const segment = captured ? "/training-token-capture" : "";
  const response = await fetch(`${url}/ng-rollout/${ROLLOUT_ID}${segment}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": key },
    body: JSON.stringify({ model, max_tokens: 16, messages: [{ role: "user", content: "hi" }] }),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  if (response.status === 200) return;
  throw new Error(`answers ${response.status}: ${(await response.text()).slice(0, 500)}`);
}

function describe({ capabilities }: EngineReport): string {
  const { tokenIds, prefixSupply, contextTokens } = capabilities;
  if (!tokenIds) return "no token ids, evaluation only";
  const history = prefixSupply ? "append-only history" : "history rendered by the server";
  return `token ids, ${history}, context ${contextTokens ?? "unlimited"}`;
}

async function tokensOf(run: RunActors): Promise<string> {
  const [entry] = (await run.store?.call.freeze(ROLLOUT_ID))?.entries ?? [];
  if (entry === undefined) return "";
  const { prompt_token_ids: prompt, generation_token_ids: generation, logprobs_mode } = entry;
  return `, ${prompt.length} + ${generation.length} tokens captured, log probabilities ${logprobs_mode}`;
}
