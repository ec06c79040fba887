/** A model server spoken to over HTTP, as Claude Code does. */
import { describe, expect, test } from "vitest";
import type { TokenEntry } from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import { parseEvents, readMessage, type StreamedMessage } from "../support/messages-stream.js";
import {
  keyHeaders,
  postMessages,
  recordedRequests,
  ScriptedEngine,
  startServer,
  storeCapture,
  toolCallText,
  userRequest,
} from "../support/model-server.js";

async function answerOf(response: Response): Promise<StreamedMessage> {
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
  return readMessage(parseEvents(await response.text()));
}

describe.each(recordedRequests("").map((r) => [r.name, r] as const))("%s", (_name, recorded) => {
  test("is accepted and answered in the form it asked for", async () => {
    const { store } = temporaryStore();
    const engine = new ScriptedEngine([
      `Let me look.\n${toolCallText("Bash", { command: "ls" })}\n${toolCallText("Read", { file_path: "é" })}<|im_end|>`,
    ]);
    const { server, base } = await startServer({ engine, capture: storeCapture(store) });
    const { epoch } = await store.open("r1");
    server.openRollout({ rolloutId: "r1", epoch, captured: true });
    const headers = { ...recorded.headers, ...keyHeaders("r1", epoch) };
    for (const hop of ["host", "connection", "content-length", "accept-encoding"])
      delete headers[hop];
    const response = await postMessages(base("r1"), recorded.body, headers);
    const answer =
      recorded.body.stream === true
        ? await answerOf(response)
        : ((await response.json()) as StreamedMessage);
    expect(answer.content.map((block) => block["type"])).toEqual(["text", "tool_use", "tool_use"]);
    expect(answer.stop_reason).toBe("tool_use");
    expect(answer.model).toBe(recorded.body.model);
    const { entries, incomplete } = await store.freeze("r1");
    expect(incomplete).toBe(false);
    const [entry] = entries as [TokenEntry];
    expect(answer.usage.input_tokens).toBe(entry.prompt_token_ids.length);
    expect(answer.usage.output_tokens).toBe(entry.generation_token_ids.length);
    expect(entry.served_message_id).toBe(answer.id);
    expect(entry.served_tool_call_ids).toEqual(answer.content.slice(1).map((block) => block["id"]));
    const isContinuation = recorded.body.messages.some((m) => m.role === "assistant");
    expect(entry.parent_resolution).toBe(isContinuation ? "UNRESOLVED" : "ROOT");
  });
});

test("a plain call needs no rollout", async () => {
  const { url } = await startServer();
  const response = await postMessages(url, userRequest("hi"), {
    "content-type": "application/json",
  });
  expect(await response.json()).toMatchObject({ content: [{ type: "text", text: "ok" }] });
});
