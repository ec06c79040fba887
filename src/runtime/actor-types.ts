/** How an actor's class looks from another thread, as types. What cannot cross is a compile error that says so. */
import type { DeathReport } from "./errors.js";

/** Names of the methods that answer once. Fields, accessors and streams are not among them. */
type MethodKeys<A> = {
  // `then` would make `call` a promise to `await`.
  [K in keyof A & string]: K extends "then"
    ? never
    : A[K] extends (...args: never[]) => infer R
      ? IsStream<R> extends true
        ? never
        : K
      : never;
}[keyof A & string];

/** Names of the methods that return a generator. */
type StreamKeys<A> = {
  [K in keyof A & string]: A[K] extends (...args: never[]) => infer R
    ? IsStream<R> extends true
      ? K
      : never
    : never;
}[keyof A & string];

/** The methods of an actor as its callers see them: always asynchronous. */
export type ActorMethods<A> = {
  readonly [K in MethodKeys<A>]: A[K] extends (...args: infer P) => infer R
    ? Checked<P | Awaited<R>, (...args: P) => Promise<Awaited<R>>>
    : never;
};

/** The generator methods of an actor as its callers see them. Each is called when its first item is asked for. */
export type ActorStreams<A> = {
  readonly [K in StreamKeys<A>]: A[K] extends (...args: infer P) => infer R
    ? Checked<P | ItemOf<R>, (...args: P) => AsyncIterableIterator<ItemOf<R>, undefined>>
    : never;
};

/**
 * What a method's type becomes when an argument or its result holds something that no thread can be sent. Such a
 * method cannot be called; `Problem` says why.
 */
export interface NotCloneable<Problem extends string> {
  readonly "this method cannot be called from another thread, because it takes or returns": Problem;
}

type Checked<Values, Method> = [CloneProblem<Values>] extends [never]
  ? Method
  : NotCloneable<CloneProblem<Values>>;

type IsAny<T> = 0 extends 1 & T ? true : false;

type IsStream<R> =
  IsAny<R> extends true
    ? false
    : [Awaited<R>] extends [never]
      ? false
      : Awaited<R> extends AsyncIterable<unknown> | Iterator<unknown>
        ? true
        : false;

type ItemOf<R> =
  Awaited<R> extends AsyncIterable<infer T> ? T : Awaited<R> extends Iterator<infer T> ? T : never;

/** A handle, by its shape: it crosses threads, methods and all. */
interface HandleLike {
  readonly id: string;
  readonly call: unknown;
  kill(): Promise<DeathReport>;
}

type Crosses =
  // biome-ignore lint/suspicious/noConfusingVoidType: it is what a method without a result returns
  | void
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | Date
  | RegExp
  | Error
  | ArrayBufferLike
  | ArrayBufferView
  | HandleLike;

/** Never for what crosses a thread, else its name. Looks five levels deep; run time checks the rest. */
type CloneProblem<T, Depth extends 0[] = []> = Depth["length"] extends 5
  ? never
  : unknown extends T
    ? never
    : T extends Crosses
      ? never
      : T extends symbol
        ? "a symbol"
        : T extends AbortSignal
          ? "an AbortSignal"
          : T extends (...args: never[]) => unknown
            ? "a function or an instance of a class with methods"
            : T extends ReadonlyMap<infer K, infer V>
              ? CloneProblem<K | V, [...Depth, 0]>
              : T extends ReadonlySet<infer V>
                ? CloneProblem<V, [...Depth, 0]>
                : T extends readonly (infer V)[]
                  ? CloneProblem<V, [...Depth, 0]>
                  : { [K in keyof T]-?: CloneProblem<T[K], [...Depth, 0]> }[keyof T];
