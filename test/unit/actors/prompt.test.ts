import { describe, expect, test } from "vitest";
import { taskPrompt } from "../../../src/actors/agent-harness/prompt.js";
import type { Task } from "../../../src/actors/rollout.js";

const task = (input: Task["responses_create_params"]["input"]): Task => ({
  _ng_task_index: 0,
  responses_create_params: { input },
});

describe("taskPrompt", () => {
  test("a string is the prompt", () => {
    expect(taskPrompt(task("do it"))).toBe("do it");
  });

  test("the last user message ends the prompt and earlier turns stand before it", () => {
    const input = [
      { role: "system", content: "be brief" },
      {
        role: "user",
        content: [
          { type: "input_text", text: "one" },
          { type: "text", text: "two" },
        ],
      },
      { role: "user", content: "three" },
    ];
    expect(taskPrompt(task(input))).toBe("be brief\n\none\ntwo\n\nthree");
  });

  test.each([
    [
      [
        { role: "user", content: "a" },
        { role: "assistant", content: "b" },
      ],
      /\[1\] has role "assistant"/,
    ],
    [[{ role: "system", content: "a" }], /no user message/],
    [[{ role: "user", content: [{ type: "input_image", image_url: "x" }] }], /no text/],
    [[{ role: "user", content: 3 }], /neither text nor parts/],
    [" ", /is empty/],
    ["a\0b", /NUL/],
  ])("refuses what cannot be said as text: %j", (input, message) => {
    expect(() => taskPrompt(task(input))).toThrow(message);
  });
});
