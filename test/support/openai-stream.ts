/** Reads Chat Completions and Responses streams as strictly as the strictest client, and checks their grammar. */

// Wire data is read as it comes; a wrong shape throws.
// biome-ignore lint/suspicious/noExplicitAny: the checks below are the types
type WireObject = Record<string, any>;

/** Data of every event; comments are left out. */
export function parseData(text: string): string[] {
  if (!text.endsWith("\n\n")) throw new Error("the stream does not end with a whole event");
  return text
    .slice(0, -2)
    .split("\n\n")
    .filter((block) => !block.startsWith(":"))
    .map((block) => {
      const data = /^(?:event: \S+\n)?data: (.+)$/.exec(block)?.[1];
      if (data === undefined) throw new Error(`no event with one data line: ${block}`);
      return data;
    });
}

/** The chat completion that the chunks add up to. @throws Error at the first chunk that breaks the grammar. */
export function readChat(text: string, includeUsage: boolean): WireObject {
  const data = parseData(text);
  if (data.pop() !== "[DONE]") throw new Error("no [DONE] at the end");
  const chunks = data.map((one) => JSON.parse(one) as WireObject);
  const last = includeUsage ? chunks.pop() : undefined;
  if (includeUsage && last?.["choices"].length !== 0) throw new Error("usage beside a choice");
  const message: WireObject = { role: "assistant", content: "", refusal: null };
  let finish: string | null = null;
  let logprobs: unknown = null;
  const [first] = chunks;
  for (const chunk of chunks) {
    if (chunk["id"] !== first?.["id"] || chunk["created"] !== first?.["created"])
      throw new Error("the id or the time changed");
    if (chunk["object"] !== "chat.completion.chunk") throw new Error(chunk["object"]);
    if (includeUsage !== "usage" in chunk) throw new Error("usage key");
    if (finish !== null) throw new Error("a choice after the finish reason");
    const [choice] = chunk["choices"] as [WireObject];
    addDelta(message, choice["delta"]);
    logprobs = choice["logprobs"] ?? logprobs;
    finish = choice["finish_reason"];
  }
  if (finish === null) throw new Error("no finish reason");
  if (message["content"] === "" && message["tool_calls"]) message["content"] = null;
  return {
    id: first?.["id"],
    object: "chat.completion",
    created: first?.["created"],
    model: first?.["model"],
    choices: [{ index: 0, message, logprobs, finish_reason: finish }],
    ...(last === undefined ? {} : { usage: last["usage"] }),
  };
}

function addDelta(message: WireObject, delta: WireObject): void {
  if (delta["content"]) message["content"] += delta["content"];
  if (delta["reasoning_content"]) message["reasoning_content"] = delta["reasoning_content"];
  for (const { index, ...call } of (delta["tool_calls"] ?? []) as WireObject[]) {
    message["tool_calls"] ??= [];
    if (index !== message["tool_calls"].length) throw new Error("a tool call is sent twice");
    message["tool_calls"].push(call);
  }
}

/** The final response, after every event before it was seen to agree with it. */
export function readResponse(text: string): WireObject {
  const events = parseData(text).map((one) => JSON.parse(one) as WireObject);
  events.forEach((event, index) => {
    if (event["sequence_number"] !== index) throw new Error(`sequence ${event["sequence_number"]}`);
  });
  const types = events.map((event) => event["type"]);
  if (types[0] !== "response.created") throw new Error(`first is ${types[0]}`);
  const { response: final, type } = events.at(-1) as WireObject;
  const expectedEnd =
    final["status"] === "incomplete" ? "response.incomplete" : "response.completed";
  if (type !== expectedEnd) throw new Error(`${type} for status ${final["status"]}`);
  for (const { response } of events)
    if (response !== undefined && response.id !== final["id"]) throw new Error("response id");
  const rest = events.slice(1, -1).filter((event) => event["type"] !== "response.in_progress");
  for (const [index, item] of (final["output"] as WireObject[]).entries())
    readItem(rest, item, index);
  if (rest.length > 0) throw new Error(`${rest[0]?.["type"]} belongs to no item`);
  return final;
}

const DELTAS: Readonly<Record<string, readonly string[]>> = {
  message: ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"],
  function_call: ["function_call_arguments.delta", "function_call_arguments.done"],
  reasoning: [
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
  ],
};

function readItem(rest: WireObject[], item: WireObject, index: number): void {
  const take = (type: string): WireObject => {
    const next = rest.shift() ?? {};
    if (next["type"] !== `response.${type}`)
      throw new Error(`expected ${type}, got ${next["type"] ?? "the end"}`);
    if (next["output_index"] !== index) throw new Error(`output index of ${type}`);
    if (!type.startsWith("output_item") && next["item_id"] !== item["id"])
      throw new Error(`item id of ${type}`);
    return next;
  };
  const { item: opened } = take("output_item.added");
  if (opened.id !== item["id"] || opened.type !== item["type"]) throw new Error("item changed");
  const parts = DELTAS[item["type"] as string]?.map(take) ?? [];
  const text =
    item["arguments"] ?? item["content"]?.[0].text ?? (item["summary"]?.[0].text as string);
  const deltas = parts.filter((event) => event["delta"] !== undefined);
  if (deltas.length !== 1 || deltas[0]?.["delta"] !== text)
    throw new Error("delta is not the text");
  for (const { text: done, arguments: finished } of parts)
    if ((done ?? finished ?? text) !== text) throw new Error("done is not the text");
  const { item: closed } = take("output_item.done");
  if (JSON.stringify(closed) !== JSON.stringify(item)) throw new Error("item done is not the item");
}
