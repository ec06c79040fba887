/**
 * Rendering and parsing as a server with Qwen3's template and the Hermes parser does them: the whole history is rendered
 * anew, special-token text in it becomes special tokens, and calls are found in the text.
 */
import { Template } from "@huggingface/jinja";
import { qwen3ChatTemplate, type Vocabulary } from "../embedded-policy/index.js";

type Json = Readonly<Record<string, unknown>>;

export class MockChat {
  readonly #vocabulary: Vocabulary;
  readonly #template = new Template(qwen3ChatTemplate());

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** Prompt ids of a chat request. */
  async promptIds(body: Json): Promise<number[]> {
    return Array.from(await this.#vocabulary.encode(this.rendered(body)));
  }

  /** Prompt text of a chat request. */
  rendered(body: Json): string {
    return this.#template.render({
      messages: body["messages"],
      tools: body["tools"],
      add_generation_prompt: true,
      ...(body["chat_template_kwargs"] as Json | undefined),
    });
  }

  /** The message of an answer, as the Hermes parser makes it; without a parser all of it is text. */
  message(tokenIds: readonly number[], hasParser = true): Json {
    const text = this.#vocabulary.decode([...tokenIds]).replace(/<\|im_end\|>$/, "");
    if (!hasParser) return { role: "assistant", content: text };
    const calls = [...text.matchAll(/<tool_call>([\s\S]*?)<\/tool_call>/g)].flatMap(([, body]) =>
      toolCall(body ?? ""),
    );
    if (calls.length === 0) return { role: "assistant", content: text };
    const content = text.slice(0, text.indexOf("<tool_call>"));
    return {
      role: "assistant",
      content: content === "" ? null : content,
      tool_calls: calls.map((call, index) => ({
        id: `chatcmpl-tool-${index}`,
        type: "function",
        function: call,
      })),
    };
  }
}

function toolCall(body: string): { name: string; arguments: string }[] {
  try {
    const { name, arguments: input } = JSON.parse(body) as { name: string; arguments?: unknown };
    return [{ name, arguments: JSON.stringify(input ?? {}) }];
  } catch {
    return [];
  }
}
