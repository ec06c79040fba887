/**
 * Carries what was thrown over a thread. Structured clone keeps a message and a stack and turns every class into
 * `Error`; here a thrown value arrives with all a caller may decide by.
 *
 * E1. `name`, `message`, remote `stack`, `code`, the `cause` chain, own fields and `AggregateError.errors` are kept.
 * E2. Encoding never fails: a field that cannot be sent is sent as text, a function field is left out.
 * E3. Native error classes and the runtime's own come back as instances of themselves; all others as `Error` with
 *     their name.
 * E4. A thrown value that is no error arrives as that value.
 */
import { inspect, types } from "node:util";
import { ACTOR_ERROR_CLASSES } from "./errors.js";
import { type EncodeSpecial, type PackedValue, pack, unpack } from "./wire-value.js";

/** An error as plain data. */
export interface WireError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  /** Own fields, `cause` and `errors` included, each packed by itself. */
  readonly fields: readonly (readonly [name: string, enumerable: boolean, field: PackedValue])[];
}

/** What was thrown: an error or any other value. */
export type WireThrown = { readonly error: WireError } | { readonly thrown: PackedValue };

const MAX_DEPTH = 16;
const NATIVE_CLASSES: ReadonlyMap<string, new (message: string) => Error> = new Map(
  [TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError].map((Class) => [
    Class.name,
    Class,
  ]),
);

export function encodeThrown(thrown: unknown): WireThrown {
  if (isError(thrown)) return { error: encodeError(thrown) };
  try {
    return { thrown: pack(thrown, encodeNestedError(0)) };
  } catch {
    return { error: encodeError(new Error(`Threw ${inspect(thrown, { depth: 2 })}`)) };
  }
}

export function decodeThrown(wire: WireThrown): unknown {
  return "error" in wire ? decodeError(wire.error) : unpack(wire.thrown, decodeNestedError);
}

function encodeError(error: Error, depth = 0): WireError {
  const fields: [string, boolean, PackedValue][] = [];
  for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(error))) {
    if (name === "name" || name === "message" || name === "stack") continue;
    const enumerable = descriptor.enumerable === true;
    // A hidden private field of a library (zod keeps its internals in `_zod`) says nothing to a caller.
    if (!enumerable && name.startsWith("_")) continue;
    const field = encodeField(readField(error, name), enumerable, depth);
    if (field !== undefined) fields.push([name, enumerable, field]);
  }
  const code = readField(error, "code");
  if (!Object.hasOwn(error, "code") && (typeof code === "string" || typeof code === "number"))
    fields.push(["code", true, { value: code }]);
  const stack = readField(error, "stack");
  return {
    name: textOf(readField(error, "name"), "Error"),
    message: textOf(readField(error, "message"), ""),
    ...(typeof stack === "string" ? { stack } : {}),
    fields,
  };
}

export function decodeError(wire: WireError): Error {
  const Native = NATIVE_CLASSES.get(wire.name);
  const aggregate = wire.name === "AggregateError";
  const error = aggregate
    ? new AggregateError([], wire.message)
    : new (Native ?? Error)(wire.message);
  const own = ACTOR_ERROR_CLASSES.get(wire.name);
  if (own !== undefined) Object.setPrototypeOf(error, own.prototype);
  const hidden = { configurable: true, writable: true, enumerable: false };
  if (error.name !== wire.name)
    Object.defineProperty(error, "name", { ...hidden, value: wire.name });
  if (wire.stack === undefined) Reflect.deleteProperty(error, "stack");
  else Object.defineProperty(error, "stack", { ...hidden, value: wire.stack });
  for (const [name, enumerable, field] of wire.fields) {
    const value = unpack(field, decodeNestedError);
    Object.defineProperty(error, name, { ...hidden, enumerable, value });
  }
  return error;
}

/** Marks an error inside a larger value, so that `decodeNestedError` can bring it back. */
export interface ErrorSpecial {
  readonly nestedError: WireError;
}

/** An `EncodeSpecial` for errors in values. */
export function encodeNestedError(depth: number): EncodeSpecial {
  return (value): ErrorSpecial | undefined => {
    if (!isError(value)) return undefined;
    // A cause chain that loops ends here as text.
    if (depth >= MAX_DEPTH)
      return { nestedError: { name: "Error", message: String(value), fields: [] } };
    return { nestedError: encodeError(value, depth + 1) };
  };
}

/** The inverse, for values that hold no other specials. */
export function decodeNestedError(special: unknown): Error {
  return decodeError((special as ErrorSpecial).nestedError);
}

function encodeField(value: unknown, enumerable: boolean, depth: number): PackedValue | undefined {
  if (typeof value === "function") return undefined;
  try {
    const packed = pack(value, encodeNestedError(depth));
    // Finds the last things `pack` leaves to structured clone, a detached buffer for one (E2).
    if (typeof value === "object" && value !== null) structuredClone(packed);
    return packed;
  } catch {
    return enumerable ? { value: inspect(value, { depth: 2 }) } : undefined;
  }
}

function readField(error: Error, name: string): unknown {
  try {
    return (error as unknown as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}

function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error;
}
