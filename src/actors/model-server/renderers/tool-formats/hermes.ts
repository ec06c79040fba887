/** Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. */
import {
  callsBetweenMarks,
  isObject,
  parsedJson,
  type ToolFormat,
  toolCallOf,
} from "./tool-format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export const hermesFormat: ToolFormat = {
  marks: [OPEN, CLOSE],
  parse: (segments) =>
    callsBetweenMarks(segments, [OPEN, CLOSE], (body) => {
      const value = parsedJson(body);
      if (!isObject(value)) return null;
      const { name, arguments: input = {} } = value;
      return toolCallOf(name, input);
    }),
};
