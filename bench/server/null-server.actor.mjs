// A model-server worker whose engine answers at once, so that what is measured is the server. Its parts tell their time.
import { loadQwen3Vocabulary, qwen3ChatTemplate } from "corral/embedded-policy";
import { defineActor } from "corral/runtime";
import { openCapture } from "../../dist/actors/model-server/capture-client.js";
import { FULL_CAPABILITIES } from "../../dist/actors/model-server/engines/engine.js";
import { TokenChatEngine } from "../../dist/actors/model-server/engines/token-chat-engine.js";
import { ModelServer } from "../../dist/actors/model-server/model-server.js";
import { ChatTemplateRenderer } from "../../dist/actors/model-server/renderers/chat-template-renderer.js";
import { threadCpuMs } from "./thread-cpu.mjs";

class NullServer {
  #stages = {};

  constructor(server) {
    this.server = server;
  }

  static async start({ store, index, keySecret, expertsBytes }) {
    const vocabulary = await loadQwen3Vocabulary();
    const capture = await openCapture({ kind: "store", store });
    const renderer = new ChatTemplateRenderer(vocabulary, {
      family: "qwen3",
      chatTemplate: qwen3ChatTemplate(),
      variables: { enable_thinking: false },
    });
    const answers = await Promise.all(
      ["Let me look.", "I see.", "Now the next file."].map((text) =>
        vocabulary.encode(
          `${text}<tool_call>\n{"name": "tool_0", "arguments": {"path": "a.txt"}}\n</tool_call><|im_end|>`,
        ),
      ),
    );
    let turn = 0;
    /** @type {import("../../dist/actors/model-server/engines/engine.js").TokenEngine} */
    const engine = {
      capabilities: FULL_CAPABILITIES,
      async generate() {
        const tokenIds = answers[turn++ % answers.length];
        return {
          tokenIds,
          logProbs: new Float64Array(tokenIds.length).fill(-0.5),
          logprobsMode: "processed",
          finishReason: "stop",
          policyVersionStart: 0,
          policyVersionEnd: 0,
        };
      },
      async close() {},
    };
    const self = new NullServer(null);
    const timed = (stage, object, method) => {
      const real = object[method].bind(object);
      object[method] = async (...args) => {
        const before = performance.now();
        try {
          return await real(...args);
        } finally {
          self.#add(stage, performance.now() - before);
        }
      };
    };
    timed("tokenize", vocabulary, "encode");
    timed("render and tokenize", renderer, "promptIds");
    timed("render and tokenize", renderer, "continuationIds");
    timed("lineage", capture.lineage, "candidates");
    timed("lineage", capture.lineage, "cumulativeIds");
    timed("durable intent", capture.sink, "beginCall");
    timed("durable record", capture.sink, "put");
    if (expertsBytes > 0) {
      const put = capture.sink.put.bind(capture.sink);
      const experts = "r".repeat(expertsBytes);
      capture.sink.put = (entry) => put({ ...entry, routed_experts: experts });
    }
    self.server = new ModelServer(
      {
        host: "127.0.0.1",
        port: 0,
        workerIndex: index,
        workerGeneration: 0,
        model: "policy",
        samplingOverrides: {},
        runSeed: 0,
        keySecret,
        requireRolloutKey: true,
        maxModelCalls: 1_000_000,
      },
      {
        engine: new TokenChatEngine(engine, renderer),
        capture,
        logger: { warn() {}, error: console.error },
      },
    );
    await self.server.start();
    return self;
  }

  #add(stage, ms) {
    this.#stages[stage] ??= { ms: 0, calls: 0 };
    const seen = this.#stages[stage];
    seen.ms += ms;
    seen.calls += 1;
  }

  address() {
    return this.server.address();
  }

  openRollouts(openings) {
    for (const opening of openings) this.server.openRollout(opening);
  }

  cpuMs() {
    return threadCpuMs();
  }

  /** Milliseconds by stage since the last time it was asked. */
  stages() {
    const seen = this.#stages;
    this.#stages = {};
    return seen;
  }
}

export const nullServer = defineActor({
  module: import.meta.url,
  name: "nullServer",
  create: (options) => NullServer.start(options),
  stop: (actor) => actor.server.close(),
});
