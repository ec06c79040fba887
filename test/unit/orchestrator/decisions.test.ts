import { describe, expect, it } from "vitest";
import { captureDecisions } from "../../../src/orchestrator/config/decisions.js";
import { loadConfig } from "../../../src/orchestrator/config/load.js";

const sampling = { temperature: 1, top_p: 1, top_k: 0 };

function decide(
  capture: Record<string, unknown>,
  { flag = false, overrides = sampling as object } = {},
) {
  const agent = { kind: "claude_code", model: "policy" };
  return captureDecisions(
    loadConfig({
      token_id_capture: capture,
      responses_api_models: {
        policy: { engine: { kind: "embedded" }, sampling_overrides: overrides },
      },
      responses_api_agents: { flagged: { ...agent, token_id_capture: flag }, plain: agent },
    }),
  );
}

interface Row {
  readonly capture: Record<string, unknown>;
  readonly flag?: boolean;
  readonly overrides?: object;
  readonly target: "off" | "store" | "module";
  readonly rebuild: boolean;
  readonly selected: readonly string[];
  readonly warnings?: readonly string[];
  readonly errors?: readonly string[];
}

const module = { sink: "pkg:Sink", lineage: "pkg:Lineage", rebuild_response: false };

describe("settings", () => {
  it.each<[string, Row]>([
    [
      "D1. enabled: false captures nothing",
      { capture: { dir: "/d" }, target: "off", rebuild: false, selected: [] },
    ],
    [
      "D1. enabled: false beside a sink",
      { capture: module, target: "off", rebuild: false, selected: [] },
    ],
    [
      "D1. a flag with enabled: false warns",
      {
        capture: {},
        flag: true,
        target: "off",
        rebuild: false,
        selected: [],
        warnings: ["responses_api_agents.flagged.token_id_capture is set, but"],
      },
    ],
    [
      "D1. all_agents with enabled: false warns",
      {
        capture: { all_agents: true },
        target: "off",
        rebuild: false,
        selected: [],
        warnings: ["token_id_capture.all_agents is set, but"],
      },
    ],
    [
      "enabled and a flag select that agent only",
      {
        capture: { enabled: true, dir: "/d" },
        flag: true,
        target: "store",
        rebuild: true,
        selected: ["flagged"],
      },
    ],
    [
      "all_agents selects every agent",
      {
        capture: { enabled: true, dir: "/d", all_agents: true },
        target: "store",
        rebuild: true,
        selected: ["flagged", "plain"],
      },
    ],
    [
      "no agent selected warns",
      {
        capture: { enabled: true, dir: "/d" },
        target: "store",
        rebuild: true,
        selected: [],
        warnings: ["no agent is selected"],
      },
    ],
    [
      "D2. neither dir nor sink",
      {
        capture: { enabled: true },
        flag: true,
        target: "off",
        rebuild: false,
        selected: [],
        warnings: ["neither dir nor sink"],
        errors: ["token_id_capture.dir: is missing"],
      },
    ],
    [
      "neither dir nor sink, rebuild_response: false",
      {
        capture: { enabled: true, rebuild_response: false },
        flag: true,
        target: "off",
        rebuild: false,
        selected: [],
        warnings: ["neither dir nor sink"],
      },
    ],
    [
      "sink beside dir warns",
      {
        capture: { enabled: true, dir: "/d", ...module },
        flag: true,
        target: "module",
        rebuild: false,
        selected: ["flagged"],
        warnings: ["dir is not used"],
      },
    ],
    [
      "D2. sink without lineage",
      {
        capture: { enabled: true, ...module, lineage: null },
        flag: true,
        target: "module",
        rebuild: false,
        selected: ["flagged"],
        warnings: ["lineage is not set"],
        errors: ["token_id_capture.lineage: is missing beside sink"],
      },
    ],
    [
      "sink without lineage, allowed",
      {
        capture: { enabled: true, ...module, lineage: null, allow_unresolved_continuations: true },
        flag: true,
        target: "module",
        rebuild: false,
        selected: ["flagged"],
        warnings: ["lineage is not set"],
      },
    ],
    [
      "D2. sink and rebuild_response without source",
      {
        capture: { enabled: true, ...module, rebuild_response: true },
        flag: true,
        target: "module",
        rebuild: true,
        selected: ["flagged"],
        errors: ["token_id_capture.source: is missing beside sink"],
      },
    ],
    [
      "rebuild_response: false with a store",
      {
        capture: { enabled: true, dir: "/d", rebuild_response: false },
        flag: true,
        target: "store",
        rebuild: false,
        selected: ["flagged"],
      },
    ],
    [
      "unpinned sampling warns",
      {
        capture: { enabled: true, dir: "/d" },
        flag: true,
        overrides: { temperature: 1 },
        target: "store",
        rebuild: true,
        selected: ["flagged"],
        warnings: ["does not pin top_p, top_k"],
      },
    ],
    [
      "unpinned sampling without capture is silent",
      { capture: {}, overrides: {}, target: "off", rebuild: false, selected: [] },
    ],
  ])("%s", (_name, row) => {
    const made = decide(row.capture, {
      flag: row.flag ?? false,
      overrides: row.overrides ?? sampling,
    });
    expect(made.target.kind).toBe(row.target);
    expect(made.rebuild).toBe(row.rebuild);
    expect(Object.keys(made.selected).filter((name) => made.selected[name])).toEqual(row.selected);
    expect(made.warnings).toEqual(
      (row.warnings ?? []).map((text) => expect.stringContaining(text)),
    );
    expect(made.errors.map(({ message }) => message)).toEqual(
      (row.errors ?? []).map((text) => expect.stringContaining(text)),
    );
  });
});
