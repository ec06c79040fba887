/** A lane's transport: both ends of the port are here. */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { afterEach, expect, it } from "vitest";
import { PortWire } from "../../../src/runtime/port-wire.js";
import { turns } from "../../support/runtime-rig.js";

const open: MessagePort[] = [];
afterEach(() => {
  for (const port of open.splice(0)) port.close();
});

function lane() {
  const { port1, port2 } = new MessageChannel();
  open.push(port1, port2);
  const received: unknown[] = [];
  const batches: unknown[][] = [];
  const lost: string[] = [];
  const end = (port: MessagePort, name: string) =>
    new PortWire<unknown, unknown>(port, {
      onMessage: (message) => received.push(message),
      onLost: () => lost.push(name),
    });
  port2.on("message", (batch: unknown[]) => batches.push(batch));
  return {
    near: end(port1, "near"),
    far: end(port2, "far"),
    received,
    batches,
    lost,
    port1,
    port2,
  };
}

it("P1 keeps the order of small messages, which travel together, and of large ones", async () => {
  const { near, received, batches } = lane();
  near.send(1);
  near.send(2);
  near.sendAlone({ n: 3 });
  near.send(4);
  await turns();
  expect(received).toEqual([1, 2, { n: 3 }, 4]);
  expect(batches).toEqual([[1, 2], [{ n: 3 }], [4]]);
});

it("P2 a message that cannot be cloned takes no other with it", async () => {
  const { near, received } = lane();
  near.send("before");
  expect(() => near.sendAlone({ f: () => 1 })).toThrow(DOMException);
  near.send("after");
  await turns();
  expect(received).toEqual(["before", "after"]);
});

it("P3 two messages with one object do not share it on the other side", async () => {
  const { near, received } = lane();
  const shared = { n: 1 };
  near.sendAlone(shared);
  near.sendAlone(shared);
  await turns();
  expect(received).toEqual([shared, shared]);
  expect(received[0]).not.toBe(received[1]);
});

it.each(["port1", "port2"] as const)(
  "P4 a message that arrives broken at %s closes both ends",
  async (end) => {
    const wires = lane();
    wires[end].emit("messageerror", new Error("broken"));
    await turns();
    expect(wires.lost.sort()).toEqual(["far", "near"]);
  },
);

it("P1 drains what was posted, before it closes", async () => {
  const { near, far, received } = lane();
  near.sendAlone("posted");
  far.drain();
  expect(received).toEqual(["posted"]);
  far.close();
  await turns();
  expect(received).toEqual(["posted"]);
});
