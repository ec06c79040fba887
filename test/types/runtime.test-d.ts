import {
  type ActorRef,
  type ActorState,
  createRuntime,
  type DeathReport,
  defineActor,
} from "corral/runtime";
import { expectTypeOf, test } from "vitest";

class Counter {
  readonly label = "x";
  #n = 0;
  increment(by: number = 1): number {
    this.#n += by;
    return this.#n;
  }
  async later(text: string): Promise<{ text: string }> {
    return { text };
  }
  other(): ActorRef<Counter> | undefined {
    return undefined;
  }
  get size(): number {
    return this.#n;
  }
  // biome-ignore lint/suspicious/noThenProperty: a method of this name must not make `call` awaitable
  then(): void {}
}
const counter = defineActor({
  module: import.meta.url,
  name: "counter",
  options: { parse: (value: unknown) => value as { start: number } },
  create: (options, ctx) => {
    expectTypeOf(options).toEqualTypeOf<{ start: number }>();
    expectTypeOf(ctx.name).toEqualTypeOf<string | undefined>();
    return new Counter();
  },
  stop: (actor) => {
    expectTypeOf(actor).toEqualTypeOf<Counter>();
  },
});

test("spawn infers the actor and its options", async () => {
  const runtime = await createRuntime();
  const ref = await runtime.spawn(counter, { start: 0 });
  expectTypeOf(ref).toExtend<ActorRef<Counter>>();
  expectTypeOf(ref.call.increment).toEqualTypeOf<(by?: number) => Promise<number>>();
  // @ts-expect-error the option is a number
  await runtime.spawn(counter, { start: "0" });
  expectTypeOf(runtime.list()[0]?.state).toEqualTypeOf<ActorState | undefined>();
});

test("call shows methods only, each asynchronous", () => {
  const ref = {} as ActorRef<Counter>;
  expectTypeOf<keyof typeof ref.call>().toEqualTypeOf<"increment" | "later" | "other">();
  expectTypeOf(ref.call.increment).toEqualTypeOf<(by?: number) => Promise<number>>();
  expectTypeOf(ref.call.later).toEqualTypeOf<(text: string) => Promise<{ text: string }>>();
  expectTypeOf(ref.call.other).returns.toEqualTypeOf<Promise<ActorRef<Counter> | undefined>>();
  expectTypeOf(ref.stop).returns.toEqualTypeOf<Promise<DeathReport>>();
  // @ts-expect-error a field is not callable
  void ref.call.label;
});
