/**
 * What the `token_id_capture` settings mean together: where calls are recorded, which agents are selected, who rebuilds.
 * Pure. Errors stop the start, warnings are printed loudly.
 *
 * D1. `enabled: false` captures nothing, whatever else is set.
 * D2. Capture that could not be rebuilt, or could not be chained, is an error at start and never a surprise in the rows.
 */
import { ConfigError } from "../errors.js";
import { isMapping } from "./merge.js";
import type { CorralConfig } from "./schema.js";

export type CaptureTarget =
  | { readonly kind: "off" }
  | { readonly kind: "store"; readonly dir: string }
  | {
      readonly kind: "module";
      readonly sink: ModuleSpecifier;
      readonly lineage?: ModuleSpecifier;
    };

interface ModuleSpecifier {
  /** `module:Export`. */
  readonly specifier: string;
  readonly kwargs: Readonly<Record<string, unknown>>;
}

export interface CaptureDecisions {
  readonly target: CaptureTarget;
  /** We freeze, rebuild and drop. */
  readonly rebuild: boolean;
  /** Agent name → its rollouts are captured. */
  readonly selected: Readonly<Record<string, boolean>>;
  readonly warnings: readonly string[];
  readonly errors: readonly ConfigError[];
}

export function captureDecisions(config: CorralConfig): CaptureDecisions {
  const block = config.token_id_capture;
  const agents = Object.entries(config.responses_api_agents);
  const flagged = agents.filter(([, agent]) => agent.token_id_capture).map(([name]) => name);
  if (!block.enabled) return captureOff(config, flagged);

  const target = captureTarget(block);
  const select = (name: string) =>
    target.kind !== "off" && (block.all_agents || flagged.includes(name));
  const selected = Object.fromEntries(agents.map(([name]) => [name, select(name)]));
  return {
    target,
    rebuild: block.rebuild_response && target.kind !== "off",
    selected,
    warnings: [...blockWarnings(block, target, selected), ...unpinnedWarnings(config, selected)],
    errors: [...blockErrors(block), ...withoutTokenIds(config, selected)],
  };
}

/** True for a row whose agent was to be captured and rebuilt. A task without `agent_ref` went to the only agent. */
export function rowSelection({ selected, rebuild }: CaptureDecisions): (row: unknown) => boolean {
  const [only] = Object.keys(selected);
  return (row) => {
    const reference = isMapping(row) ? row["agent_ref"] : undefined;
    const name = isMapping(reference) ? String(reference["name"]) : only;
    return rebuild && name !== undefined && selected[name] === true;
  };
}

type Block = CorralConfig["token_id_capture"];

/** D1. */
function captureOff(config: CorralConfig, flagged: readonly string[]): CaptureDecisions {
  const asked = config.token_id_capture.all_agents
    ? ["token_id_capture.all_agents"]
    : flagged.map((name) => `responses_api_agents.${name}.token_id_capture`);
  const names = Object.keys(config.responses_api_agents);
  return {
    target: { kind: "off" },
    rebuild: false,
    selected: Object.fromEntries(names.map((name) => [name, false])),
    warnings:
      asked.length > 0
        ? [`${asked.join(", ")} is set, but token_id_capture.enabled is false: nothing is captured`]
        : [],
    errors: unavailable(config.token_id_capture),
  };
}

function captureTarget(block: Block): CaptureTarget {
  if (block.sink !== undefined) {
    const sink = { specifier: block.sink, kwargs: block.sink_kwargs };
    if (block.lineage === undefined) return { kind: "module", sink };
    return {
      kind: "module",
      sink,
      lineage: { specifier: block.lineage, kwargs: block.lineage_kwargs },
    };
  }
  return block.dir === undefined ? { kind: "off" } : { kind: "store", dir: block.dir };
}

function blockWarnings(
  block: Block,
  target: CaptureTarget,
  selected: Readonly<Record<string, boolean>>,
): string[] {
  const warnings: string[] = [];
  if (target.kind === "off")
    warnings.push("token_id_capture has neither dir nor sink: nothing is captured");
  else if (!Object.values(selected).includes(true))
    warnings.push(
      "token_id_capture.enabled is true, but no agent is selected: set token_id_capture: true on an agent, or all_agents",
    );
  if (block.sink !== undefined && block.dir !== undefined)
    warnings.push("token_id_capture.dir is not used: token_id_capture.sink replaces the store");
  if (block.sink !== undefined && block.lineage === undefined)
    warnings.push(
      "token_id_capture.lineage is not set: every continued call of a rollout is unresolved, so only single-call rollouts are trainable",
    );
  return warnings;
}

/** An unpinned parameter is the harness's or the engine's choice, and the trainer optimises another distribution. */
function unpinnedWarnings(
  config: CorralConfig,
  selected: Readonly<Record<string, boolean>>,
): string[] {
  const captured = Object.entries(config.responses_api_agents)
    .filter(([name]) => selected[name] === true)
    .map(([, agent]) => agent.model);
  return [...new Set(captured)].flatMap((name) => {
    const pinned = config.responses_api_models[name]?.sampling_overrides ?? {};
    const open = (["temperature", "top_p", "top_k"] as const).filter(
      (key) => pinned[key] === undefined,
    );
    if (open.length === 0) return [];
    return [
      `responses_api_models.${name}.sampling_overrides does not pin ${open.join(", ")}: the harness or the engine decides`,
    ];
  });
}

/** D2. */
function blockErrors(block: Block): ConfigError[] {
  const errors: ConfigError[] = [];
  const conflict = (key: string, problem: string) =>
    errors.push(new ConfigError("SETTINGS_CONFLICT", `token_id_capture.${key}`, problem));
  if (block.sink === undefined && block.dir === undefined && block.rebuild_response)
    conflict(
      "dir",
      "is missing; allowed: a folder for the store, a sink, or rebuild_response: false",
    );
  if (
    block.sink !== undefined &&
    block.lineage === undefined &&
    !block.allow_unresolved_continuations
  )
    conflict(
      "lineage",
      'is missing beside sink; allowed: "module:Export", or allow_unresolved_continuations: true',
    );
  if (block.sink !== undefined && block.rebuild_response && block.source === undefined)
    conflict(
      "source",
      'is missing beside sink; allowed: "module:Export", or rebuild_response: false',
    );
  return [...errors, ...unavailable(block)];
}

/** Captured agents of a model whose engine tells no token ids. */
function withoutTokenIds(
  { responses_api_agents: agents, responses_api_models: models }: CorralConfig,
  selected: Readonly<Record<string, boolean>>,
): ConfigError[] {
  return Object.entries(agents).flatMap(([name, { model }]) => {
    if (selected[name] !== true || models[model]?.engine.kind !== "openai_compatible") return [];
    const field = `responses_api_models.${model}.engine.kind`;
    const problem = `openai_compatible tells no token ids, so the agent ${name} cannot be captured; allowed: an engine that does, or no token_id_capture on that agent`;
    return [new ConfigError("SETTINGS_CONFLICT", field, problem)];
  });
}

/** A setting without its mechanism is refused by name, never ignored. */
function unavailable(block: Block): ConfigError[] {
  if (block.keep_masked_mb === undefined) return [];
  return [
    new ConfigError(
      "NOT_AVAILABLE",
      "token_id_capture.keep_masked_mb",
      "is not available in this version; remove it (masked evidence is kept)",
    ),
  ];
}
