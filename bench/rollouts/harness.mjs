/** Two harnesses of three calls each: a short prompt without tools, and Claude Code's own request body. */
import { readFileSync } from "node:fs";
import { Agent, request } from "undici";

const recorded = JSON.parse(
  readFileSync(
    new URL("../../examples/claude-code/training/claude-request.json", import.meta.url),
    "utf8",
  ),
);
const claudeBody = JSON.stringify({ ...recorded.body, stream: false });

// A `fetch` costs the client more than the whole call costs the server; what is measured is the server.
const dispatcher = new Agent({ connections: 64 });

async function call({ baseUrl, apiKey, signal }, body) {
  const response = await request(`${baseUrl}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": apiKey },
    body: JSON.stringify(body),
    signal,
    dispatcher,
  });
  const text = await response.body.text();
  if (response.statusCode !== 200) throw new Error(`HTTP ${response.statusCode}: ${text}`);
  return JSON.parse(text);
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
