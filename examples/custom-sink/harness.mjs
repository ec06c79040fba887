// A harness of three model calls over the Messages API: it offers one tool and answers whatever the model asks for.
const tools = [
  {
    name: "Note",
    description: "Keeps a note.",
    input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  },
];

export async function run({ baseUrl, apiKey, model, prompt, signal }) {
  const messages = [{ role: "user", content: prompt }];
  let answer;
  for (let turn = 0; turn < 3; turn += 1) {
    const response = await fetch(`${baseUrl}/v1/messages`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": apiKey },
      body: JSON.stringify({ model, max_tokens: 64, tools, messages }),
      signal,
    });
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    answer = await response.json();
    const results = answer.content
      .filter((block) => block.type === "tool_use")
      .map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "noted" }));
    const next = results.length > 0 ? results : [{ type: "text", text: "Go on." }];
    messages.push({ role: "assistant", content: answer.content }, { role: "user", content: next });
  }
  const texts = answer.content.filter((block) => block.type === "text").map(({ text }) => text);
  return { finalText: texts.join(""), finalMessageId: answer.id };
}
