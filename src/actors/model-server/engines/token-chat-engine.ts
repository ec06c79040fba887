/**
 * A `TokenEngine` with a renderer: the prompt is rendered here, and the engine sees ids only.
 *
 * P1. With `append_only`, a continuation is the parent's own ids plus the ids of what follows: the policy's tokens are
 *     never encoded again, whatever the template would make of them.
 * P2. Any doubt makes a new segment with its reason, and the prompt is what the template makes of the whole request.
 */
import type { Conversation } from "../../../capture/index.js";
import type { PolicySnapshot } from "../../../embedded-policy/index.js";
import { historyRewritten } from "../prompt.js";
import type { ParseTurnOptions, Renderer } from "../renderers/renderer.js";
import { stopAt } from "../stop-sequences.js";
import {
  type ChatEngine,
  type ChatGeneration,
  type ChatRequest,
  type EngineCapabilities,
  type EnginePrompt,
  firstDifference,
  type ParentTokens,
  type TokenEngine,
  type TokenGeneration,
} from "./engine.js";
import { EngineError } from "./engine-error.js";

/** `template`: every prompt is rendered whole, as a server would; where that rewrites history, a new segment begins. */
export type HistoryMode = "append_only" | "template";

export class TokenChatEngine implements ChatEngine {
  readonly #engine: TokenEngine;
  readonly #renderer: Renderer;
  readonly #history: HistoryMode;

  constructor(engine: TokenEngine, renderer: Renderer, history: HistoryMode = "append_only") {
    this.#engine = engine;
    this.#renderer = renderer;
    this.#history = history;
  }

  get capabilities(): EngineCapabilities {
    return this.#engine.capabilities;
  }

  get vocabularySize(): number {
    return this.#renderer.vocabularySize;
  }

  async prompt(conversation: Conversation, parent?: ParentTokens): Promise<EnginePrompt> {
    if (parent !== undefined && this.#history === "append_only") {
      const continued = await this.#continued(parent);
      if (typeof continued === "object") return { ids: continued }; // P1
      return { ids: await this.#renderer.promptIds(conversation), refusal: continued }; // P2
    }
    const ids = await this.#renderer.promptIds(conversation);
    if (parent === undefined) return { ids };
    const at = firstDifference(ids.subarray(0, parent.ids.length), parent.ids);
    return at === null ? { ids } : { ids, refusal: historyRewritten(at, ids, parent.ids) };
  }

  /** The parent's ids and what follows them, or why that cannot be. */
  async #continued({ ids, appended }: ParentTokens): Promise<Int32Array | string> {
    if (!this.#renderer.endsTurn(ids)) return "PARENT_TRUNCATED";
    let next: Int32Array;
    try {
      next = await this.#renderer.continuationIds(appended);
    } catch (error) {
      return `NO_CONTINUATION: ${error instanceof Error ? error.message : String(error)}`;
    }
    const length = ids.length + next.length;
    const { contextTokens = Number.POSITIVE_INFINITY } = this.capabilities;
    if (length >= contextTokens) return `CONTEXT_OVERFLOW: ${length} tokens of ${contextTokens}`;
    const joined = new Int32Array(length);
    joined.set(ids);
    joined.set(next, ids.length);
    return joined;
  }

  async generate(request: ChatRequest): Promise<ChatGeneration> {
    const { conversation, prompt, stopSequences, toolChoice, ...options } = request;
    if (prompt.ids === null) throw new EngineError("ENGINE_CANNOT", "there are no prompt ids");
    const { stopIds } = this.#renderer;
    const sampled = await this.#engine.generate({ ...options, promptIds: prompt.ids, stopIds });
    try {
      return this.#read(sampled, stopSequences, {
        tools: conversation.tools,
        toolCalls: toolChoice !== "none",
      });
    } catch (cause) {
      const message = "the engine sent ids outside the vocabulary";
      throw new EngineError("ENGINE_REPLY_INVALID", message, { cause });
    }
  }

  #read(
    sampled: TokenGeneration,
    stopSequences: readonly string[],
    options: ParseTurnOptions,
  ): ChatGeneration {
    const renderer = this.#renderer;
    const { generation, stopSequence } = stopAt(sampled, stopSequences, (ids) =>
      renderer.decode(ids),
    );
    return {
      ...generation,
      turn: renderer.parseTurn(generation.tokenIds, options),
      stopSequence,
      tokenTexts: () => Array.from(generation.tokenIds, (id) => renderer.decode([id])),
    };
  }

  async countTokens(conversation: Conversation): Promise<number> {
    return (await this.#renderer.promptIds(conversation)).length;
  }

  async pause(): Promise<boolean> {
    return (await this.#engine.pause?.()) ?? false;
  }

  async resume(): Promise<boolean> {
    return (await this.#engine.resume?.()) ?? false;
  }

  setPolicy(snapshot: PolicySnapshot): void {
    this.#engine.setPolicy?.(snapshot);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}
