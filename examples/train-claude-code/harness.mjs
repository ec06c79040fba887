/**
 * Claude Code without its process: its own request body over HTTP, and its four tools over the task's files in memory.
 * Some ten times as fast as the CLI. What a policy is worth is measured with the real one.
 */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { SimulatedWorkspace } from "../claude-code/training/simulator.mjs";

const recorded = JSON.parse(
  readFileSync(new URL("../claude-code/training/claude-request.json", import.meta.url), "utf8"),
);
const bodyText = JSON.stringify({ ...recorded.body, stream: false });
const MAX_TURNS = 4;

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

/** Ends with an answer, or without one at the turn limit. */
export async function claudeCode(context) {
  const { task, prompt, workDir, model } = context;
  const body = JSON.parse(bodyText.replaceAll(recorded.working_directory, workDir));
  body.model = model;
  const [first] = body.messages;
  first.content = [first.content[0], { type: "text", text: prompt }];
  const workspace = new SimulatedWorkspace(workDir, task.files ?? {});
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const answer = await call(context, body);
    const uses = answer.content.filter(({ type }) => type === "tool_use");
    if (uses.length === 0) {
      await keepFiles(workspace, workDir);
      const text = answer.content.map(({ text }) => text ?? "").join("");
      return { finalText: text, finalMessageId: answer.id };
    }
    const results = uses.map(({ id, name, input }) => {
      const { ok, result } = workspace.run(name, input);
      return {
        type: "tool_result",
        tool_use_id: id,
        content: result,
        ...(ok ? {} : { is_error: true }),
      };
    });
    body.messages.push(
      { role: "assistant", content: answer.content },
      { role: "user", content: results },
    );
  }
  await keepFiles(workspace, workDir);
  return { finalText: null };
}

/** Only names that stay in the directory: the policy chose them. */
async function keepFiles(workspace, workDir) {
  for (const [name, content] of workspace.files)
    if (/^[A-Za-z0-9._-]+$/.test(name) && !/^\.+$/.test(name))
      await writeFile(path.join(workDir, name), content);
}
