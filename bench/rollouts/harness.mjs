/** Two harnesses of three calls each: a short prompt without tools, and Claude Code's own request body. */
import { readFileSync } from "node:fs";

const recorded = JSON.parse(
  readFileSync(
    new URL("../../examples/claude-code/training/claude-request.json", import.meta.url),
    "utf8",
  ),
);
const claudeBody = JSON.stringify({ ...recorded.body, stream: false });

async function call({ baseUrl, apiKey, signal }, body) {
  const response = await fetch(`${baseUrl}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": apiKey },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  return await response.json();
}

async function threeCalls(context, body) {
  let answer;
  for (let turn = 0; turn < 3; turn++) {
    answer = await call(context, body);
    const results = answer.content
      .filter(({ type }) => type === "tool_use")
      .map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "ok" }));
    const next = results.length > 0 ? results : [{ type: "text", text: "Go on." }];
    body.messages.push(
      { role: "assistant", content: answer.content },
      { role: "user", content: next },
    );
  }
  const text = answer.content.map((block) => block.text ?? "").join("");
  return { finalText: text, finalMessageId: answer.id };
}

export function short(context) {
  const { model, prompt } = context;
  return threeCalls(context, {
    model,
    max_tokens: 64,
    messages: [{ role: "user", content: prompt }],
  });
}

export function claude(context) {
  const body = JSON.parse(claudeBody.replaceAll(recorded.working_directory, context.workDir));
  const [first] = body.messages;
  first.content = [first.content[0], { type: "text", text: context.prompt }];
  return threeCalls(context, { ...body, model: context.model });
}

export function always() {
  return 1;
}
