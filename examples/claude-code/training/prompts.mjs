/** Prompt ids as the model server makes them from Claude Code's requests: rendered once, then only ever extended. */
import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";
import { qwen3ChatTemplate } from "corral/embedded-policy";

const request = JSON.parse(readFileSync(new URL("claude-request.json", import.meta.url), "utf8"));
const template = new Template(qwen3ChatTemplate());

/** The directory that the recorded request names. */
export const workingDirectory = request.working_directory;

const joined = (blocks) => blocks.map((block) => block.text).join("\n");

function render(messages, tools) {
  return template.render({
    messages,
    ...(tools && { tools }),
    add_generation_prompt: true,
    enable_thinking: false,
  });
}

/** Ids of the first prompt of a task: the recorded request with its prompt replaced. */
export function firstPrompt(vocabulary, prompt) {
  const [reminder] = request.body.messages[0].content;
  const messages = [
    { role: "system", content: joined(request.body.system) },
    { role: "user", content: joined([reminder, { text: prompt }]) },
  ];
  const tools = request.body.tools.map(({ name, description, input_schema }) => {
    return { type: "function", function: { name, description, parameters: input_schema } };
  });
  return vocabulary.encode(render(messages, tools));
}

/** Ids of the next prompt: earlier ids and generated ids kept as they are, the tool result appended. */
export async function nextPrompt(vocabulary, promptIds, generatedIds, result) {
  const mark = "answer<|im_end|>";
  const text = render([
    { role: "user", content: "x" },
    { role: "assistant", content: "answer" },
    { role: "tool", content: result },
  ]);
  const added = await vocabulary.encode(text.slice(text.indexOf(mark) + mark.length));
  return Int32Array.from([...promptIds, ...generatedIds, ...added]);
}

/** The tool call or the answer that generated ids hold. */
export function readCompletion(vocabulary, ids) {
  const open = ids.indexOf(vocabulary.specialId("<tool_call>"));
  const close = ids.indexOf(vocabulary.specialId("</tool_call>"));
  if (open < 0) return { answer: vocabulary.decode(ids.subarray(0, -1)) };
  const { name, arguments: input } = JSON.parse(vocabulary.decode(ids.subarray(open + 1, close)));
  return { call: { name, input } };
}
