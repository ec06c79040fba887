// Sink, source and lineage over the data plane. A sink and a lineage are built in each model-server worker, a source
// where rollouts are delivered; all they share is the URL.
import { createHash } from "node:crypto";
import { z } from "zod";

const Kwargs = z.object({
  /** Of the data plane, e.g. http://127.0.0.1:8900 */
  url: z.url(),
});

class Client {
  /** What may stand in sink_kwargs, source_kwargs and lineage_kwargs; anything else is refused at start. */
  static kwargs = Kwargs;
  #url;

  constructor({ url }) {
    this.#url = url;
  }

  async call(method, body) {
    const response = await fetch(new URL(method, this.#url), {
      method: "POST",
      body: JSON.stringify(body),
    });
    const value = await response.json();
    if (!response.ok) throw Object.assign(new Error(value.message), { code: value.code });
    return value;
  }

  /** Nothing is held: each call is a request of its own. */
  async close() {}
}

export class HttpSink extends Client {
  async beginCall(rollout, call) {
    await this.call("beginCall", { rollout, call });
  }

  async endCall(rollout, call, outcome) {
    await this.call("endCall", { rollout, call, outcome });
  }

  async put(entry) {
    const record = toJson(entry);
    await this.call("put", { entry: record, digest: payloadDigest(record) });
  }

  async markIncomplete(rollout, call) {
    await this.call("markIncomplete", { rollout, call });
  }
}

export class HttpSource extends Client {
  /** Entries may stay in their JSON form: whoever builds from them checks and converts them. */
  freeze(rollout) {
    return this.call("freeze", { rollout });
  }

  drop(rollout, { snapshotId, version }) {
    return this.call("drop", { rollout, snapshotId, version });
  }
}

export class HttpLineage extends Client {
  async candidates(rollout, key) {
    const entries = await this.call("candidates", { rollout, key });
    return entries.map(nodeOf);
  }

  async cumulativeIds(rollout, call) {
    const entry = await this.call("record", { rollout, call });
    return idsOf(entry);
  }
}

/** JSON has no typed arrays; it keeps every digit of a double. */
function toJson(entry) {
  return {
    ...entry,
    prompt_token_ids: Array.from(entry.prompt_token_ids),
    generation_token_ids: Array.from(entry.generation_token_ids),
    generation_log_probs: Array.from(entry.generation_log_probs),
  };
}

/** `created_at` does not count: a repeated put may carry another time. */
function payloadDigest({ created_at: _createdAt, ...payload }) {
  const sorted = (_key, value) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return createHash("sha256").update(JSON.stringify(payload, sorted)).digest("hex");
}

function idsOf(entry) {
  return Int32Array.from([...entry.prompt_token_ids, ...entry.generation_token_ids]);
}

function nodeOf(entry) {
  const ids = idsOf(entry);
  return {
    modelCallId: entry.model_call_id,
    model: entry.model,
    contextDigest: entry.context_digest,
    contextLength: entry.context_length,
    fingerprintVersion: entry.fingerprint_version,
    servedText: entry.served_text,
    servedToolCalls: entry.served_tool_calls,
    finishReason: entry.finish_reason,
    cumLen: ids.length,
    cumulativeDigest: createHash("sha256").update(new Uint8Array(ids.buffer)).digest("hex"),
  };
}
