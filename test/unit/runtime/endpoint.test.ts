/** The contract with Comlink 4.4.2: the shapes our endpoints rely on. Ports of one thread; no worker. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { expose, wrap } from "comlink";
import { afterEach, expect, it } from "vitest";
import { ActorEndpoint, CallerEndpoint } from "../../../src/runtime/endpoint.js";

const open: MessagePort[] = [];
afterEach(() => {
  for (const port of open.splice(0)) port.close();
});
function lane(onLost: () => void = () => {}) {
  const { port1, port2 } = new MessageChannel();
  open.push(port1, port2);
  return {
    caller: new CallerEndpoint(port1, onLost),
    actor: new ActorEndpoint(port2),
    port1,
    port2,
  };
}
type Target = { invoke(value: unknown): unknown };

it("P1 carries a call and its answer, and forgets the id", async () => {
  const { caller, actor } = lane();
  expose({ invoke: (value: unknown) => ({ got: value }) }, actor);
  const call = wrap<Target>(caller).invoke(5);
  expect(caller.inFlight).toBe(1);
  expect(await call).toEqual({ got: 5 });
  expect(caller.inFlight).toBe(0);
});

it("P1 answers what is in flight and what comes later with died", async () => {
  const { caller, actor } = lane();
  expose({ invoke: () => new Promise(() => {}) }, actor);
  const remote = wrap<Target>(caller);
  const pending = [remote.invoke(1), remote.invoke(2)];
  caller.fail();
  expect(await Promise.all([...pending, remote.invoke(3)])).toEqual(
    Array(3).fill({ kind: "died" }),
  );
  expect(caller.inFlight).toBe(0);
});

it("P1 an answer that was posted before the death counts, though the news came first", async () => {
  const { caller, port2 } = lane();
  const remote = wrap<Target>(caller);
  const calls = [remote.invoke(1), remote.invoke(2)];
  await new Promise<void>((resolve) => {
    port2.once("message", ({ id }: { id: string }) => {
      port2.postMessage({ id, type: "RAW", value: "answered" });
      // The same turn: the port's own event has not reached the caller yet.
      caller.fail();
      resolve();
    });
  });
  expect(await Promise.all(calls)).toEqual(["answered", { kind: "died" }]);
});

it("P2 fails only the call whose argument or result cannot be cloned", async () => {
  const { caller, actor } = lane();
  expose({ invoke: (value: unknown) => (value === "bad" ? { f: () => 1 } : value) }, actor);
  const remote = wrap<Target>(caller);
  const answers = await Promise.all([
    remote.invoke("a"),
    remote.invoke({ f: () => 1 }),
    remote.invoke("bad"),
    remote.invoke("b"),
  ]);
  const refused = { kind: "not-cloneable", what: expect.stringContaining("could not be cloned") };
  expect(answers).toEqual(["a", refused, refused, "b"]);
});

it("P3 a message that arrives broken, on either side, ends the lane", async () => {
  await new Promise<void>((resolve) => {
    lane(resolve).port1.emit("messageerror", new Error("broken request"));
  });
  await new Promise<void>((resolve) => {
    lane(resolve).port2.emit("messageerror", new Error("broken answer"));
  });
});

it("P1 tells when the other side is gone", async () => {
  await new Promise<void>((resolve) => {
    lane(resolve).port2.close();
  });
});
