/**
 * Which weights sampled which tokens, as inference servers tell it: `{version, start, end}` for each stretch of the
 * generated tokens, or only where it starts, or only the version.
 *
 * W1. A version that is no number is not known; spans that do not cover every token once, in order, are none. What a
 *     server does not say is left out, never filled in.
 */
import type { PolicyVersionSpan } from "../../../capture/index.js";
import type { TokenGeneration } from "./engine.js";

type Versions = Pick<
  TokenGeneration,
  "policyVersionStart" | "policyVersionEnd" | "policyVersionSpans"
>;

/** A version that is a number, or the text of one. */
export function versionOf(value: unknown): number | undefined {
  if (Number.isSafeInteger(value)) return value as number;
  return typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : undefined;
}

/** @param generated number of generated tokens. */
export function reportedVersions(reported: unknown, generated: number): Versions {
  const entries: unknown[] = Array.isArray(reported) ? reported : [];
  const versions = entries.flatMap((entry) => versionOf(fieldsOf(entry).version) ?? []);
  if (versions.length === 0) return {};
  const spans = spansOf(entries, generated);
  return {
    policyVersionStart: Math.min(...versions),
    policyVersionEnd: Math.max(...versions),
    ...(spans === undefined ? {} : { policyVersionSpans: spans }),
  };
}

function fieldsOf(entry: unknown): { version: unknown; start?: unknown; end?: unknown } {
  if (typeof entry !== "object" || entry === null) return { version: entry };
  const { weight_version, version, start, end } = entry as Record<string, unknown>;
  return { version: weight_version ?? version, start, end };
}

/** W1. An end that is not given is the next start. */
function spansOf(entries: readonly unknown[], generated: number): PolicyVersionSpan[] | undefined {
  const spans: PolicyVersionSpan[] = [];
  let covered = 0;
  for (const [index, entry] of entries.entries()) {
    const fields = fieldsOf(entry);
    const next = index + 1 < entries.length ? fieldsOf(entries[index + 1]).start : generated;
    const version = versionOf(fields.version);
    const end = fields.end ?? next;
    if (version === undefined || fields.start !== covered || typeof end !== "number")
      return undefined;
    if (!Number.isInteger(end) || end <= covered) return undefined;
    spans.push({ version, start: covered, end });
    covered = end;
  }
  return covered === generated ? spans : undefined;
}

/** The spans of the first `length` generated tokens. */
export function cutSpans(spans: readonly PolicyVersionSpan[], length: number): PolicyVersionSpan[] {
  return spans
    .filter(({ start }) => start < length)
    .map((span) => ({ ...span, end: Math.min(span.end, length) }));
}
