/** A rollout's calls and breaks as text for a terminal. */
import type { RolloutExplanation } from "../index.js";

type Tree = Pick<RolloutExplanation, "calls" | "build">;
type Break = RolloutExplanation["breaks"][number];
type Call = RolloutExplanation["calls"][number];

/** The tree: one line for each call, indented where calls part. */
export function describeTree({ calls, build }: Tree): string {
  const children = new Map<string | null, number>();
  for (const { parentId } of calls) children.set(parentId, (children.get(parentId) ?? 0) + 1);
  const depths = new Map<string, number>();
  const lines = calls.map((call) => {
    const { callId, parentId } = call;
    // A chain stays at one depth, however long: only a fork goes deeper.
    const forks = parentId !== null && (children.get(parentId) ?? 0) > 1;
    const depth = (parentId === null ? 0 : (depths.get(parentId) ?? 0)) + (forks ? 1 : 0);
    depths.set(callId, depth);
    return `${"  ".repeat(depth)}${describeCall(call)}`;
  });
  return [`rollout ${build.rolloutId}: ${describeBuild({ calls, build })}`, ...lines, ""].join(
    "\n",
  );
}

function describeBuild({ calls, build }: Tree): string {
  const { metrics } = build;
  const counts = [
    `${calls.length} calls`,
    ...(metrics.chains === undefined ? [] : [`${metrics.chains} chains`, `${metrics.roots} roots`]),
  ];
  const reasons = metrics.mask_reasons.map(({ code, detail }) =>
    detail === undefined ? code : `${code} (${detail})`,
  );
  const mask = build.masked ? `masked: ${reasons.join(", ")}` : "unmasked";
  return `${counts.join(", ")}; ${mask}`;
}

function describeCall(call: Call): string {
  const { callId, parentId, purpose, promptTokens, newTokens, generatedTokens } = call;
  const mark = parentId === null ? "*" : "-";
  const prompt = parentId === null ? `${promptTokens}` : `${promptTokens} (+${newTokens})`;
  const parts = [
    `${mark} ${callId} ${purpose}`,
    `prompt ${prompt}`,
    `generated ${generatedTokens}`,
    ...(call.finishReason === undefined ? [] : [call.finishReason]),
    ...(call.state === "chain" ? [] : [call.state]),
    ...(call.boundary === undefined ? [] : [`unresolved: ${call.boundary}`]),
  ];
  return parts.join(", ");
}

export function describeBreaks({ calls, build, breaks }: RolloutExplanation): string {
  const head = `rollout ${build.rolloutId}: ${describeBuild({ calls, build })}`;
  if (breaks.length === 0) return `${head}\nevery call continues the one before it\n`;
  return [head, ...breaks.map(describeBreak), ""].join("\n");
}

function describeBreak(one: Break): string {
  const { callId, purpose, cause, reason, comparedWith, firstDifference: difference } = one;
  const why = reason === undefined ? cause : `${cause} (${reason})`;
  const lines = [`\ncall ${callId} (${purpose}): ${why}`];
  if (comparedWith === undefined) lines.push("  shares no token with an earlier call");
  else if (difference === undefined) lines.push(`  holds all tokens of call ${comparedWith}`);
  else
    lines.push(
      `  like call ${comparedWith} up to token ${difference.position}`,
      `  before    ${JSON.stringify(difference.before)}`,
      `  recorded  ${side(difference.recordedId, difference.recorded)}`,
      `  sent      ${side(difference.sentId, difference.sent)}`,
    );
  return lines.join("\n");
}

function side(id: number, text: string): string {
  return id < 0 ? "(end)" : `[${id}] ${JSON.stringify(text)}`;
}
