/** `corral mock-engine`: an inference server without a model, for machines without a GPU. Ends on SIGINT or SIGTERM. */
import fs from "node:fs";
import {
  ConfigError,
  isMockFault,
  loadCheckpoint,
  MOCK_FAULTS,
  MOCK_SHAPES,
  MockEngine,
  type MockEngineOptions,
  type MockFault,
  type MockShape,
  type ScriptedAnswer,
} from "../../index.js";
import { printText } from "../output.js";

export interface MockEngineCommandOptions {
  readonly shape: string;
  readonly port: string;
  readonly checkpoint?: string;
  readonly script?: string;
  readonly fault?: readonly string[];
  readonly servedModelName?: string;
  readonly maxModelLen?: string;
  readonly logprobsMode?: string;
  readonly enableAutoToolChoice?: boolean;
  readonly toolCallParser?: string;
}

export async function mockEngineCommand(options: MockEngineCommandOptions): Promise<number> {
  const engine = await MockEngine.start(await checked(options));
  await printText(`${options.shape} mock engine at ${engine.url}\n`);
  await new Promise<void>((resolve) => {
    process.once("SIGINT", resolve);
    process.once("SIGTERM", resolve);
  });
  await engine.close();
  return 0;
}

async function checked(options: MockEngineCommandOptions): Promise<MockEngineOptions> {
  const { checkpoint, script, servedModelName, maxModelLen, enableAutoToolChoice } = options;
  return {
    shape: oneOf("--shape", options.shape, MOCK_SHAPES) as MockShape,
    port: wholeNumber("--port", options.port, 0, 65_535),
    logprobsMode: oneOf("--logprobs-mode", options.logprobsMode ?? "raw_logprobs", LOGPROBS_MODES),
    // vLLM too wants both flags.
    autoToolChoice: enableAutoToolChoice === true && options.toolCallParser !== undefined,
    faults: faults(options.fault ?? []),
    ...(checkpoint === undefined ? {} : { policy: await loadCheckpoint(checkpoint) }),
    ...(script === undefined ? {} : { script: readScript(script) }),
    ...(servedModelName === undefined ? {} : { servedModelName }),
    ...(maxModelLen === undefined
      ? {}
      : { maxModelLen: wholeNumber("--max-model-len", maxModelLen, 1, 2 ** 31 - 1) }),
  };
}

const LOGPROBS_MODES = ["raw_logprobs", "processed_logprobs"] as const;

function oneOf<T extends string>(option: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === value);
  if (found !== undefined) return found;
  throw invalid(option, value, allowed.join(", "));
}

function wholeNumber(option: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw invalid(option, text, `a whole number from ${min} to ${max}`);
}

/** `KIND` spoils the next call, `KIND@3` the third. */
function faults(written: readonly string[]): (MockFault | null)[] {
  const calls: (MockFault | null)[] = [];
  for (const text of written) {
    const [kind = "", at = String(calls.length + 1)] = text.split("@");
    if (!isMockFault(kind)) throw invalid("--fault", text, `${MOCK_FAULTS.join(", ")}, with @CALL`);
    const index = wholeNumber("--fault", at, 1, 1_000_000) - 1;
    while (calls.length <= index) calls.push(null);
    calls[index] = kind;
  }
  return calls;
}

function readScript(file: string): ScriptedAnswer[] {
  let text: string;
  try {
    text = fs.readFileSync(file, "utf8");
  } catch (cause) {
    throw new ConfigError("FILE_NOT_FOUND", "--script", `cannot read ${file}`, { cause });
  }
  return text
    .split("\n")
    .flatMap((line, index) => (line === "" ? [] : [answerOf(line, index + 1)]));
}

function answerOf(line: string, number: number): ScriptedAnswer {
  let answer: { text?: unknown; token_ids?: unknown } = {};
  try {
    answer = JSON.parse(line);
  } catch {
    // Refused below.
  }
  if (typeof answer.text === "string" || Array.isArray(answer.token_ids))
    return answer as ScriptedAnswer;
  throw invalid(
    "--script",
    `line ${number}`,
    '{"text": …} or {"token_ids": […], "log_probs": […]}',
  );
}

function invalid(option: string, value: string, allowed: string): ConfigError {
  return new ConfigError("INVALID_VALUE", option, `"${value}" is not valid; allowed: ${allowed}`);
}
