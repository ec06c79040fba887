/** Every combination of the capture settings against the table that the documentation gives, written down once more. */
import { expect, test } from "vitest";
import { captureDecisions } from "../../../src/orchestrator/config/decisions.js";
import { loadConfig } from "../../../src/orchestrator/config/load.js";

const SETTINGS = [
  "enabled",
  "all_agents",
  "flag",
  "dir",
  "sink",
  "source",
  "lineage",
  "rebuild_response",
  "allow_unresolved_continuations",
  "installed",
] as const;
type Settings = Readonly<Record<(typeof SETTINGS)[number], boolean>>;

const combinations = Array.from(
  { length: 2 ** SETTINGS.length },
  (_, bits) =>
    Object.fromEntries(SETTINGS.map((name, at) => [name, ((bits >> at) & 1) === 1])) as Settings,
);

function configOf(is: Settings) {
  const agent = { kind: "claude_code", model: "policy" };
  return loadConfig({
    token_id_capture: {
      enabled: is.enabled,
      all_agents: is.all_agents,
      rebuild_response: is.rebuild_response,
      allow_unresolved_continuations: is.allow_unresolved_continuations,
      ...(is.dir ? { dir: "/captures" } : {}),
      ...(is.sink ? { sink: "pkg:Sink", sink_kwargs: { a: 1 } } : {}),
      ...(is.source ? { source: "pkg:Source", source_kwargs: { b: 2 } } : {}),
      ...(is.lineage ? { lineage: "pkg:Lineage" } : {}),
    },
    responses_api_models: {
      policy: {
        engine: { kind: "embedded" },
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0 },
      },
    },
    responses_api_agents: { flagged: { ...agent, token_id_capture: is.flag }, plain: agent },
  });
}

test("every row of the table holds in every combination", () => {
  for (const is of combinations) {
    const made = captureDecisions(configOf(is), is.installed);
    const named = JSON.stringify(is);
    const target = !is.enabled ? "off" : is.sink ? "module" : is.dir ? "store" : "off";
    expect(made.target.kind, named).toBe(target);
    expect(made.rebuild, named).toBe(target !== "off" && is.rebuild_response);
    const captures = target !== "off";
    expect(made.selected, named).toEqual({
      flagged: captures && (is.all_agents || is.flag),
      plain: captures && is.all_agents,
    });

    const errors = made.errors.map(({ field }) => field.replace("token_id_capture.", ""));
    const on = is.enabled;
    expect(errors, named).toEqual([
      ...(on && !is.sink && !is.dir && is.rebuild_response ? ["dir"] : []),
      ...(on && is.sink && !is.lineage && !is.allow_unresolved_continuations ? ["lineage"] : []),
      ...(on && is.sink && is.rebuild_response && !is.source && !is.installed ? ["source"] : []),
    ]);

    const warns = (text: string) => made.warnings.some((warning) => warning.includes(text));
    const asked = is.flag || is.all_agents;
    expect(warns("enabled is false"), named).toBe(!on && asked);
    expect(warns("no agent is selected"), named).toBe(captures && !asked);
    expect(warns("neither dir nor sink"), named).toBe(on && !is.dir && !is.sink);
    expect(warns("dir is not used"), named).toBe(on && is.sink && is.dir);
    expect(warns("source is not used"), named).toBe(on && !is.sink && is.source);

    if (made.target.kind !== "module") continue;
    expect(made.target.sink, named).toEqual({ specifier: "pkg:Sink", kwargs: { a: 1 } });
    expect(made.target.source?.specifier, named).toBe(is.source ? "pkg:Source" : undefined);
    expect(made.target.lineage?.specifier, named).toBe(is.lineage ? "pkg:Lineage" : undefined);
  }
});
