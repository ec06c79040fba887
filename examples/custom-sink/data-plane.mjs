// A small data plane over HTTP that keeps token records for a training cluster: node data-plane.mjs DIR [PORT]
//
// Every change is a line of DIR/log.jsonl, synced before it is answered, and the state is what the lines say: a restart
// reads them again. One process, so each request is atomic. No code of Corral is imported here.
import { closeSync, fdatasyncSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const [dir, port = "0"] = process.argv.slice(2);
mkdirSync(dir, { recursive: true, mode: 0o700 });
const path = join(dir, "log.jsonl");
const rollouts = new Map();

function rolloutOf(id) {
  if (!rollouts.has(id))
    rollouts.set(id, {
      entries: new Map(),
      intents: new Set(),
      ended: new Map(),
      incomplete: false,
      state: "open",
      version: 0,
    });
  return rollouts.get(id);
}

/** What each change does to the state, now and at a restart. */
const CHANGES = {
  begin: (rollout, { call }) => rollout.intents.add(call),
  end: (rollout, { call, outcome }) => {
    rollout.intents.delete(call);
    if (!rollout.entries.has(call)) rollout.ended.set(call, outcome);
  },
  put: (rollout, { entry, digest }) => {
    rollout.entries.set(entry.model_call_id, { entry, digest });
    rollout.intents.delete(entry.model_call_id);
    rollout.version += 1;
  },
  mark: (rollout) => {
    rollout.incomplete = true;
    rollout.version += 1;
  },
  freeze: (rollout) => {
    rollout.state = "frozen";
  },
  drop: (rollout) => {
    rollout.state = "retired";
    rollout.entries.clear();
  },
};

for (const line of readLog()) CHANGES[line.change](rolloutOf(line.rollout), line);
const log = openSync(path, "a", 0o600);

/** Whole lines only: the last one of a process that was killed may be torn. */
function readLog() {
  let text = "";
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

function commit(change, id, fields = {}) {
  writeSync(log, `${JSON.stringify({ change, rollout: id, ...fields })}\n`);
  fdatasyncSync(log);
  CHANGES[change](rolloutOf(id), fields);
}

class Refusal extends Error {
  constructor(status, code) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

function refuseClosed(rollout) {
  if (rollout.state === "frozen") throw new Refusal(409, "ROLLOUT_FROZEN");
  if (rollout.state === "retired") throw new Refusal(410, "ROLLOUT_RETIRED");
}

const METHODS = {
  beginCall: ({ rollout: id, call }) => {
    const rollout = rolloutOf(id);
    refuseClosed(rollout);
    if (!rollout.entries.has(call) && !rollout.ended.has(call)) commit("begin", id, { call });
  },
  endCall: ({ rollout: id, call, outcome }) => {
    refuseClosed(rolloutOf(id));
    commit("end", id, { call, outcome });
  },
  put: ({ entry, digest }) => {
    const id = entry.rollout_id;
    const rollout = rolloutOf(id);
    if (rollout.state === "frozen") commit("mark", id); // the evidence of a lost call stays
    refuseClosed(rollout);
    const known = rollout.entries.get(entry.model_call_id);
    if (known?.digest === digest) return;
    if (known !== undefined || rollout.ended.has(entry.model_call_id)) {
      commit("mark", id);
      throw new Refusal(409, "RECORD_CONFLICT");
    }
    commit("put", id, { entry, digest });
  },
  markIncomplete: ({ rollout: id }) => {
    if (rolloutOf(id).state === "retired") throw new Refusal(410, "ROLLOUT_RETIRED");
    commit("mark", id);
  },
  freeze: ({ rollout: id }) => {
    const rollout = rolloutOf(id);
    if (rollout.state === "retired") throw new Refusal(410, "ROLLOUT_RETIRED");
    if (rollout.state === "open") commit("freeze", id);
    const outcomes = [...rollout.ended.values()];
    return {
      rolloutId: id,
      entries: [...rollout.entries.values()].map(({ entry }) => entry),
      incomplete: rollout.incomplete || rollout.intents.size > 0,
      incompleteReasons: [
        ...(rollout.incomplete ? ["LOST_CALL"] : []),
        ...(rollout.intents.size > 0 ? ["DANGLING_INTENT"] : []),
      ],
      failedCalls: outcomes.filter((outcome) => outcome === "failed").length,
      abortedCalls: outcomes.filter((outcome) => outcome === "aborted").length,
      snapshotId: `${id}@frozen`,
      version: rollout.version,
    };
  },
  drop: ({ rollout: id, snapshotId, version }) => {
    const rollout = rolloutOf(id);
    const isCurrent = snapshotId === `${id}@frozen` && version === rollout.version;
    if (rollout.state !== "frozen" || !isCurrent) return false;
    commit("drop", id);
    return true;
  },
  candidates: ({ rollout: id, key }) => {
    const entries = [...rolloutOf(id).entries.values()].map(({ entry }) => entry);
    return entries.filter((entry) => {
      if (entry.context_digest === undefined) return false;
      const ids = (entry.served_tool_calls ?? []).map((call) => call.id);
      if (key.kind === "tool_call_ids") return ids.length > 0 && ids.join() === key.ids.join();
      return ids.length === 0 && entry.served_text === key.text;
    });
  },
  record: ({ rollout: id, call }) => {
    const known = rolloutOf(id).entries.get(call);
    if (known === undefined) throw new Refusal(404, "CALL_NOT_FOUND");
    return known.entry;
  },
};

const server = createServer(async (request, response) => {
  const answer = (status, value) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value ?? null));
  };
  try {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const method = METHODS[request.url.slice(1)];
    if (method === undefined) throw new Refusal(404, "METHOD_NOT_FOUND");
    answer(200, method(JSON.parse(body)));
  } catch (error) {
    answer(error.status ?? 500, { code: error.code ?? "FAILED", message: error.message });
  }
});
server.listen(Number(port), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
process.on("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
  closeSync(log);
});
