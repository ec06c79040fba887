/**
 * Notices policies whose tool calls are not understood: every rollout then has one call, capture works, and nothing is
 * agentic.
 */
import type { ServerLogger } from "./call-recorder.js";
import type { ParsedTurn } from "./renderers/renderer.js";

/** Beginnings of tool calls in the formats that are common, whichever the engine's parser knows. */
const MARKUP = /<tool_call>|<function=|<\|python_tag\|>|\[TOOL_CALLS\]|^\s*\{\s*"name"\s*:/;

export class TurnHealth {
  readonly #logger: ServerLogger;
  #unparsed = 0;

  constructor(logger: ServerLogger) {
    this.#logger = logger;
  }

  /** Answers whose tool calls, or some of them, were served as text. */
  get unparsedToolCalls(): number {
    return this.#unparsed;
  }

  see(turn: ParsedTurn, offersTools: boolean): void {
    const isUnparsed =
      (turn.malformedToolCalls ?? 0) > 0 || (turn.toolCalls.length === 0 && MARKUP.test(turn.text));
    if (!offersTools || !isUnparsed) return;
    this.#unparsed += 1;
    if (this.#unparsed > 1) return;
    this.#logger.warn(
      { text: turn.text.slice(0, 500) },
      "the policy began a tool call that was not understood and is served as text; does the engine's family, or the server's --tool-call-parser, fit the model?",
    );
  }
}
