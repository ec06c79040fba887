// Messages bodies as a harness sends them: a fixed system prompt and tools, a history that grows by a turn a call.

const WORDS =
  "the file has a line that names each part of the plan and its place in the tree".split(" ");

function prose(bytes, seed) {
  const words = [];
  for (let length = 0, at = seed; length < bytes; at = (at * 31 + 7) % 1009) {
    const word = at % 13 === 0 ? `item_${at}` : WORDS[at % WORDS.length];
    words.push(word);
    length += word.length + 1;
  }
  return words.join(" ").slice(0, bytes);
}

/** A first request of about so many bytes: two thirds are tool descriptions, as with real harnesses. */
export function firstBody(bytes, stream) {
  const tools = Array.from({ length: 8 }, (_, index) => ({
    name: `tool_${index}`,
    description: prose(Math.floor(bytes / 12), index + 1),
    input_schema: {
      type: "object",
      properties: { path: { type: "string", description: prose(40, index) } },
      required: ["path"],
    },
  }));
  const text = { system: prose(Math.floor(bytes / 4), 3), task: prose(200, 5) };
  return {
    model: "policy",
    max_tokens: 256,
    system: text.system,
    tools,
    messages: [{ role: "user", content: text.task }],
    stream,
  };
}

/** The request after an answer: its echo and a result of `bytes`. Changes the body that it is given. */
export function nextBody(body, content, bytes) {
  const results = content
    .filter((block) => block.type === "tool_use")
    .map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: prose(bytes, 11) }));
  body.messages.push(
    { role: "assistant", content },
    { role: "user", content: results.length > 0 ? results : prose(bytes, 11) },
  );
}

/** The content blocks of an answer, from JSON or from a stream. */
export function contentOf(text, stream) {
  if (!stream) return JSON.parse(text).content;
  const blocks = [];
  for (const event of text.split("\n\n")) {
    const data = /^data: (.*)$/m.exec(event)?.[1];
    if (data === undefined) continue;
    const { type, content_block: block, delta } = JSON.parse(data);
    if (type === "content_block_start") blocks.push({ ...block });
    if (type !== "content_block_delta") continue;
    const last = blocks.at(-1);
    if (delta.type === "text_delta") last.text += delta.text;
    if (delta.type === "input_json_delta") last.input = JSON.parse(delta.partial_json);
  }
  return blocks;
}
