import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { decodeThrown, encodeThrown } from "../../../src/runtime/error-wire.js";
import { ActorDiedError, isActorError } from "../../../src/runtime/errors.js";

/** Over a thread: structured clone is what a port does. */
const cross = (thrown: unknown): unknown => decodeThrown(structuredClone(encodeThrown(thrown)));

const RESERVED = ["name", "message", "stack", "cause", "errors", "__proto__", "code"];
const plain = fc.oneof(
  fc.string(),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.integer()),
  fc.dictionary(
    fc.string().filter((key) => key !== "__proto__"),
    fc.integer(),
  ),
);
const fields = fc.dictionary(
  fc.string({ minLength: 1 }).filter((key) => !RESERVED.includes(key)),
  plain,
);
const NATIVE = [Error, TypeError, RangeError, SyntaxError];
const anyError = fc
  .record({
    Class: fc.constantFrom(...NATIVE),
    name: fc.option(fc.constantFrom("QuotaError", "CaptureError", "constructor", "toString"), {
      nil: undefined,
    }),
    message: fc.string(),
    code: fc.option(fc.string(), { nil: undefined }),
    fields,
  })
  .map(({ Class, name, message, code, fields: own }) => {
    const error = Object.assign(new Class(message), own);
    if (name !== undefined)
      Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
    return code === undefined ? error : Object.assign(error, { code });
  });

function expectSame(actual: unknown, expected: unknown): void {
  if (!(expected instanceof Error)) {
    expect(actual).toEqual(expected);
    return;
  }
  const error = actual as Error;
  expect(error).toBeInstanceOf(Error);
  expect([error.name, error.message, error.stack]).toEqual([
    expected.name,
    expected.message,
    expected.stack,
  ]);
  expect({ ...error }).toEqual({ ...expected });
  expect("cause" in error).toBe("cause" in expected);
  if (expected.cause !== undefined) expectSame(error.cause, expected.cause);
}

describe("error codec", () => {
  it("E1 round trips any error with its cause chain and own fields", () => {
    fc.assert(
      fc.property(fc.array(anyError, { minLength: 1, maxLength: 5 }), (chain) => {
        chain.forEach((error, index) => {
          const cause = chain[index + 1];
          if (cause !== undefined)
            Object.defineProperty(error, "cause", { value: cause, configurable: true });
        });
        expectSame(cross(chain[0]), chain[0]);
      }),
    );
  });

  it("E1 keeps AggregateError.errors", () => {
    const error = cross(
      new AggregateError([Object.assign(new TypeError("a"), { code: "A" }), 7], "all"),
    ) as AggregateError;
    expect(error).toBeInstanceOf(AggregateError);
    expect(error.errors[0]).toBeInstanceOf(TypeError);
    expect(error.errors[0]).toMatchObject({ code: "A" });
    expect(error.errors[1]).toBe(7);
  });

  it("E1 keeps zod's issues and a DOMException's code", () => {
    const refused = z.object({ a: z.number() }).safeParse({ a: "x" }).error as z.ZodError;
    const error = cross(refused) as z.ZodError;
    expect(error.name).toBe("ZodError");
    expect(error.issues).toEqual(refused.issues);
    const abort = cross(new DOMException("stop", "AbortError")) as DOMException;
    expect([abort.name, abort.message, abort.code]).toEqual(["AbortError", "stop", 20]);
  });

  it("E1 keeps errors in fields, at any depth of plain values", () => {
    const report = { inner: [Object.assign(new RangeError("deep"), { code: "DEEP" })] };
    const error = cross(Object.assign(new Error("outer"), { report })) as Error & {
      report: typeof report;
    };
    expect(error.report.inner[0]).toBeInstanceOf(RangeError);
    expect(error.report.inner[0]).toMatchObject({ code: "DEEP" });
  });

  it("E2 never fails: fields that cannot be sent become text, functions go, loops end", () => {
    const error = Object.assign(new Error("odd"), {
      url: new URL("http://localhost/"),
      nested: { f: () => 1 },
      method: () => 1,
    });
    error.cause = error;
    const back = cross(error) as Error & Record<string, unknown>;
    expect(back.message).toBe("odd");
    expect(back["url"]).toContain("localhost");
    expect(back["nested"]).toContain("Function");
    expect("method" in back).toBe(false);
    expect(back.cause).toBeInstanceOf(Error);
    const throwing = new Error("getter");
    Object.defineProperty(throwing, "bad", {
      enumerable: true,
      get: () => {
        throw new Error("no");
      },
    });
    expect((cross(throwing) as Error).message).toBe("getter");
  });

  it("E3 gives the runtime's own errors their class back", () => {
    const report = {
      cause: "oom",
      exitCode: 1,
      lastLogs: ["x"],
      uptimeMs: 5,
      restarts: 0,
    } as const;
    const error = cross(new ActorDiedError({ id: "a-1", name: "a" }, report, true, "run"));
    expect(error).toBeInstanceOf(ActorDiedError);
    expect(isActorError(error, "ACTOR_DIED")).toBe(true);
    expect(isActorError(error, "ACTOR_START_FAILED")).toBe(false);
    expect(error).toMatchObject({ report, maybeExecuted: true, actorId: "a-1" });
  });

  it("E4 passes thrown values that are no errors, as text where they cannot be sent", () => {
    for (const value of [undefined, null, 0, "text", { status: 404 }, [1]])
      expect(cross(value)).toEqual(value);
    expect((cross(() => 1) as Error).message).toContain("Function");
    expect(cross({ why: new TypeError("t") })).toMatchObject({ why: { message: "t" } });
  });
});
