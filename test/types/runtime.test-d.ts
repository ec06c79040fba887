import {
  type ActorRef,
  type ActorState,
  createRuntime,
  type DeathReport,
  defineActor,
  type NotCloneable,
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
  async *countTo(n: number): AsyncGenerator<{ n: number }> {
    yield { n };
  }
  *letters(): Generator<string> {
    yield "a";
  }
  list(): number[] {
    return [this.#n];
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
  expectTypeOf<keyof typeof ref.call>().toEqualTypeOf<"increment" | "later" | "other" | "list">();
  expectTypeOf(ref.call.increment).toEqualTypeOf<(by?: number) => Promise<number>>();
  expectTypeOf(ref.call.later).toEqualTypeOf<(text: string) => Promise<{ text: string }>>();
  expectTypeOf(ref.call.other).returns.toEqualTypeOf<Promise<ActorRef<Counter> | undefined>>();
  expectTypeOf(ref.stop).returns.toEqualTypeOf<Promise<DeathReport>>();
  // @ts-expect-error a field is not callable
  void ref.call.label;
});

test("stream shows generator methods only", () => {
  const ref = {} as ActorRef<Counter>;
  expectTypeOf<keyof typeof ref.stream>().toEqualTypeOf<"countTo" | "letters">();
  expectTypeOf(ref.stream.countTo).toEqualTypeOf<
    (n: number) => AsyncIterableIterator<{ n: number }, undefined>
  >();
  expectTypeOf(ref.stream.letters).returns.toEqualTypeOf<
    AsyncIterableIterator<string, undefined>
  >();
  // @ts-expect-error a list is a result, not a stream
  void ref.stream.list;
});

class Connected {
  readonly port = 1;
  close(): void {}
}
declare class Crossing {
  takesFunction(done: () => void): void;
  takesSignal(options: { deep: { signal?: AbortSignal } }): void;
  takesSymbol(key: symbol): void;
  givesInstance(): Promise<Connected>;
  givesUrl(): { at: URL[] };
  givesMapOfFunctions(): Map<string, () => number>;
  streamsFunctions(): AsyncGenerator<() => void>;
  plain(value: {
    ids: Int32Array;
    map: Map<string, Set<number>>;
    when?: Date;
    error: Error;
    of: readonly (string | null)[];
  }): Promise<void>;
  anything(value: unknown): unknown;
  nothing(): void;
  handle(ref: ActorRef<Counter>): { refs: ActorRef<Counter>[] };
  json(value: Json): Json;
}
type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

test("R7 what cannot be cloned is a type error that says so", () => {
  const { call, stream } = {} as ActorRef<Crossing>;
  type Functions = NotCloneable<"a function or an instance of a class with methods">;
  expectTypeOf(call.takesFunction).toEqualTypeOf<Functions>();
  expectTypeOf(call.takesSignal).toEqualTypeOf<NotCloneable<"an AbortSignal">>();
  expectTypeOf(call.takesSymbol).toEqualTypeOf<NotCloneable<"a symbol">>();
  expectTypeOf(call.givesInstance).toEqualTypeOf<Functions>();
  expectTypeOf(call.givesUrl).toEqualTypeOf<Functions>();
  expectTypeOf(call.givesMapOfFunctions).toEqualTypeOf<Functions>();
  expectTypeOf(stream.streamsFunctions).toEqualTypeOf<Functions>();
  // @ts-expect-error it cannot be called
  void call.takesFunction(() => {});
});

test("R7 what can be cloned is left alone", () => {
  const { call } = {} as ActorRef<Crossing>;
  expectTypeOf(call.plain).returns.toEqualTypeOf<Promise<void>>();
  expectTypeOf(call.anything).toEqualTypeOf<(value: unknown) => Promise<unknown>>();
  expectTypeOf(call.nothing).toEqualTypeOf<() => Promise<void>>();
  expectTypeOf(call.handle).returns.toEqualTypeOf<Promise<{ refs: ActorRef<Counter>[] }>>();
  expectTypeOf(call.json).toEqualTypeOf<(value: Json) => Promise<Json>>();
});

test("a method's options name a method of the actor", () => {
  defineActor({
    module: import.meta.url,
    name: "grouped",
    create: () => new Counter(),
    groups: { health: 1 },
    methods: { list: { group: "health" }, increment: { idempotent: true } },
  });
  defineActor({
    module: import.meta.url,
    name: "misspelt",
    create: () => new Counter(),
    // @ts-expect-error no such method
    methods: { incremenet: { idempotent: true } },
  });
});

test("call options and groups keep the types", async () => {
  const runtime = await createRuntime();
  const ref = await runtime.spawn(counter, { start: 0 });
  const own = ref.with({ timeoutMs: 5, signal: new AbortController().signal });
  expectTypeOf(own.call.increment).toEqualTypeOf<(by?: number) => Promise<number>>();
  const group = await runtime.spawnGroup(counter, (index) => ({ start: index }), { numWorkers: 2 });
  expectTypeOf(group.call.increment).toEqualTypeOf<(by?: number) => Promise<number>>();
  expectTypeOf(group.forKey("k").call.list).returns.toEqualTypeOf<Promise<number[]>>();
  // @ts-expect-error the option is a number
  await runtime.spawnGroup(counter, { start: "0" }, { numWorkers: 2 });
  expectTypeOf(runtime.put(new Int32Array(2)).buffer).toEqualTypeOf<SharedArrayBuffer>();
});
