/** Reads a Messages stream as strictly as the strictest client, and checks its grammar. */

// Wire data is read as it comes; a wrong shape throws.
// biome-ignore lint/suspicious/noExplicitAny: the checks below are the types
type WireObject = Readonly<Record<string, any>>;

export interface StreamEvent {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface StreamedMessage {
  readonly id: string;
  readonly model: string;
  readonly content: readonly Readonly<Record<string, unknown>>[];
  readonly stop_reason: string;
  readonly stop_sequence: string | null;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

export function parseEvents(text: string): StreamEvent[] {
  if (!text.endsWith("\n\n")) throw new Error("the stream does not end with a whole event");
  return text
    .slice(0, -2)
    .split("\n\n")
    .map((block) => {
      const match = /^event: (\S+)\ndata: (.+)$/.exec(block);
      if (match?.[1] === undefined || match[2] === undefined)
        throw new Error(`not an event with one data line: ${JSON.stringify(block)}`);
      const data = JSON.parse(match[2]) as Record<string, unknown>;
      if (data["type"] !== match[1]) throw new Error(`event ${match[1]} has type ${data["type"]}`);
      return { event: match[1], data };
    });
}

/** @throws Error at the first event that breaks the grammar. */
export function readMessage(events: readonly StreamEvent[]): StreamedMessage {
  const rest = events.filter(({ event }) => event !== "ping");
  const take = (event: string): WireObject => {
    const next = rest.shift();
    if (next?.event !== event)
      throw new Error(`expected ${event}, got ${next?.event ?? "the end"}`);
    return next.data;
  };
  const { message } = take("message_start");
  if (!/^msg_[0-9a-zA-Z]+$/.test(message.id)) throw new Error(`message id ${message.id}`);
  if (message.type !== "message" || message.role !== "assistant") throw new Error("no message");
  if (message.content.length !== 0 || message.stop_reason !== null) throw new Error("not empty");
  if (typeof message.usage.input_tokens !== "number") throw new Error("no input_tokens");
  const content: Record<string, unknown>[] = [];
  while (rest[0]?.event === "content_block_start") content.push(readBlock(take, content));
  const { delta, usage } = take("message_delta");
  take("message_stop");
  if (rest.length > 0) throw new Error(`${rest[0]?.event} after message_stop`);
  if (usage.input_tokens !== message.usage.input_tokens) throw new Error("input_tokens changed");
  const { id, model } = message;
  const { stop_reason, stop_sequence } = delta;
  return { id, model, content, stop_reason, stop_sequence, usage };
}

function readBlock(
  take: (event: string) => WireObject,
  before: readonly Readonly<Record<string, unknown>>[],
): Record<string, unknown> {
  const { index, content_block: block } = take("content_block_start");
  const { index: deltaIndex, delta } = take("content_block_delta");
  if (block.type === "thinking") return readThinking(take, before, block, index, delta);
  const { index: stopIndex } = take("content_block_stop");
  if (index !== before.length || deltaIndex !== index || stopIndex !== index)
    throw new Error(`block indexes ${index}, ${deltaIndex}, ${stopIndex}`);
  if (block.type === "text") {
    if (block.text !== "" || delta.type !== "text_delta") throw new Error("bad text block");
    if (before.some((other) => other["type"] === "tool_use"))
      throw new Error("text after tool_use");
    return { type: "text", text: delta.text };
  }
  if (block.type !== "tool_use" || delta.type !== "input_json_delta")
    throw new Error(`bad block ${block.type}`);
  if (Object.keys(block.input).length > 0) throw new Error("input is sent twice");
  if (!/^toolu_[0-9a-zA-Z]+$/.test(block.id)) throw new Error(`tool id ${block.id}`);
  return {
    type: "tool_use",
    id: block.id,
    name: block.name,
    input: JSON.parse(delta.partial_json),
  };
}

function readThinking(
  take: (event: string) => WireObject,
  before: readonly unknown[],
  block: WireObject,
  index: number,
  delta: WireObject,
): Record<string, unknown> {
  const { delta: signed } = take("content_block_delta");
  take("content_block_stop");
  if (index !== 0 || before.length > 0) throw new Error("thinking is not first");
  const { thinking, signature } = block;
  if (thinking !== "" || signature !== "") throw new Error("thinking is not empty");
  const types = [delta["type"], signed["type"]].join();
  if (types !== "thinking_delta,signature_delta") throw new Error(`deltas ${types}`);
  if (signed["signature"] === "") throw new Error("no signature");
  return { type: "thinking", thinking: delta["thinking"], signature: signed["signature"] };
}
