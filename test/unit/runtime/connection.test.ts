/** A connection without a thread: both ends of its port are here. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { expose } from "comlink";
import { afterEach, describe, expect, it } from "vitest";
import { Connection } from "../../../src/runtime/connection.js";
import { ActorEndpoint } from "../../../src/runtime/endpoint.js";
import type { DeathReport } from "../../../src/runtime/errors.js";
import type { Invocation, Outcome } from "../../../src/runtime/protocol.js";

const codec = {
  pack: (value: unknown) => ({ value }),
  unpack: (packed: { value: unknown }) => packed.value,
};
const report: DeathReport = { cause: "oom", exitCode: 1, lastLogs: [], uptimeMs: 1 };
const ports: MessagePort[] = [];
afterEach(() => {
  for (const port of ports.splice(0)) port.close();
});

function connect(maxConcurrency: number, reportWaitMs?: number) {
  const { port1, port2 } = new MessageChannel();
  ports.push(port1, port2);
  const received: Invocation[] = [];
  const answers: ((outcome: Outcome) => void)[] = [];
  let onReceived = (): void => {};
  const invoke = (invocation: Invocation): Promise<Outcome> => {
    received.push(invocation);
    onReceived();
    return new Promise((resolve) => answers.push(resolve));
  };
  expose({ invoke }, new ActorEndpoint(port2));
  const receivedCount = (count: number) =>
    new Promise<void>((resolve) => {
      onReceived = () => received.length >= count && resolve();
      onReceived();
    });
  const actor = { id: "a-1", name: undefined, maxConcurrency };
  const connection = new Connection(actor, port1, codec, reportWaitMs);
  return { connection, received, answers, receivedCount, port2 };
}
const done = (value: unknown): Outcome => ({ kind: "value", value: { value } });

describe("Connection", () => {
  it("K1 R3 sends at most maxConcurrency, in order", async () => {
    const { connection, received, answers, receivedCount } = connect(2);
    const calls = [0, 1, 2, 3].map((index) => connection.call("run", [index]));
    await receivedCount(2);
    expect(received).toHaveLength(2);
    answers[1]?.(done("one"));
    await receivedCount(3);
    answers[0]?.(done("zero"));
    await receivedCount(4);
    answers[2]?.(done("two"));
    answers[3]?.(done("three"));
    expect(await Promise.all(calls)).toEqual(["zero", "one", "two", "three"]);
    expect(received.map(({ args }) => args.value)).toEqual([[0], [1], [2], [3]]);
  });

  it("K2 a waiting call keeps its arguments", async () => {
    const { connection, received, answers, receivedCount } = connect(1);
    const first = connection.call("run", [0]);
    const argument = { n: 1 };
    const waiting = connection.call("run", [argument]);
    argument.n = 2;
    await receivedCount(1);
    answers[0]?.(done(0));
    await first;
    await receivedCount(2);
    expect(received[1]?.args.value).toEqual([{ n: 1 }]);
    answers[1]?.(done(1));
    await waiting;
  });

  it("K3 R1 rejects pending, waiting and later calls with the one report", async () => {
    const { connection, receivedCount } = connect(1);
    const outcomes = Promise.allSettled([connection.call("a", []), connection.call("b", [])]);
    await receivedCount(1);
    connection.died(report);
    connection.died({ ...report, cause: "exit" });
    const later = await Promise.allSettled([connection.call("c", [])]);
    const reasons = [...(await outcomes), ...later].map(
      (outcome) => (outcome as PromiseRejectedResult).reason,
    );
    expect(reasons.map(({ code, maybeExecuted }) => [code, maybeExecuted])).toEqual([
      ["ACTOR_DIED", true],
      ["ACTOR_DIED", false],
      ["ACTOR_DIED", false],
    ]);
    for (const reason of reasons) expect(reason.report).toBe(report);
    expect(await connection.dead).toBe(report);
  });

  it("K3 R1 rejects without a report when the lane closed and none came", async () => {
    const { connection, port2, receivedCount } = connect(1, 10);
    const call = connection.call("run", []);
    await receivedCount(1);
    port2.close();
    await expect(call).rejects.toMatchObject({
      code: "ACTOR_DIED",
      report: { cause: "exit", exitCode: null },
      message: expect.stringContaining("no report"),
    });
  });

  it("K3 a report that comes after the lane closed is the one that is told", async () => {
    const { connection, port2, receivedCount } = connect(1, 60_000);
    const call = connection.call("run", []);
    await receivedCount(1);
    port2.close();
    await new Promise((resolve) => port2.once("close", resolve));
    connection.died(report);
    await expect(call).rejects.toMatchObject({ report: { cause: "oom" } });
  });
});
