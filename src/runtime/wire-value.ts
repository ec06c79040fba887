/**
 * Makes a value ready to cross a thread. Structured clone drops silently what it does not know (an AbortSignal
 * arrives as `{}`) and copies a whole buffer for a small view on it; both are settled here, before sending.
 *
 * It is not a serializer: what structured clone carries well is left as it is, and a value that needs no change is
 * not copied.
 *
 * W1. A function, a symbol or an instance of a class structured clone does not keep fails with the path to it.
 * W2. A view on less than half of its ArrayBuffer is sent as a copy of just its bytes. Shared memory stays shared.
 * W3. Contents of buffers and views are never visited.
 * W4. What the caller's `special` encodes (handles, errors) is replaced and comes back at the same path. It must lie
 *     in plain objects and arrays.
 * W5. A buffer marked by `move` is handed over once, by the next message it is part of, and never copied. A detached
 *     buffer is refused: in a transfer list it would be lost without a word.
 */
import { types } from "node:util";
import { compactView, endMove, isMoving, isPartial, isPooled } from "./buffers.js";

type WirePath = readonly (string | number)[];

/** A value and the places in it that `unpack` fills. */
export interface PackedValue {
  readonly value: unknown;
  readonly specials?: readonly { readonly path: WirePath; readonly special: unknown }[];
}

/** What cannot be sent, and where. Internal: callers wrap it with the actor and the method. */
export class UncloneableError extends Error {}

/** Encodes an object in a way of its own, or returns undefined. */
export type EncodeSpecial = (value: object) => unknown;

const NOTHING_MOVED: readonly ArrayBuffer[] = [];

/** A packed value with the buffers that go with it. */
export interface Parcel {
  readonly packed: PackedValue;
  readonly transfer: readonly ArrayBuffer[];
}

/** @throws UncloneableError naming the path (W1). */
export function pack(value: unknown, special: EncodeSpecial): PackedValue {
  return packParcel(value, special).packed;
}

/** As `pack`, with what `move` marked. @throws UncloneableError naming the path (W1). */
export function packParcel(value: unknown, special: EncodeSpecial): Parcel {
  if (isPrimitive(value)) return { packed: { value }, transfer: NOTHING_MOVED };
  const scan = new Scan(special);
  scan.visit(value, []);
  const transfer = scan.moved.size === 0 ? NOTHING_MOVED : [...scan.moved];
  for (const buffer of transfer) endMove(buffer);
  if (scan.specials.length === 0 && !scan.hasPartialViews) return { packed: { value }, transfer };
  const replaced = new Set(scan.specials.map((found) => found.object));
  const copy = copyValue(value, replaced, new Map(), scan.moved);
  if (scan.specials.length === 0) return { packed: { value: copy }, transfer };
  const specials = scan.specials.map(({ path, special }) => ({ path, special }));
  return { packed: { value: copy, specials }, transfer };
}

/** The inverse of `pack`, on the other side. Changes `packed.value` in place, which nobody else holds there. */
export function unpack(packed: PackedValue, decode: (special: unknown) => unknown): unknown {
  let root = packed.value;
  for (const { path, special } of packed.specials ?? []) {
    const last = path.at(-1);
    if (last === undefined) {
      root = decode(special);
      continue;
    }
    let parent = root as Record<string | number, unknown>;
    for (const key of path.slice(0, -1)) parent = parent[key] as Record<string | number, unknown>;
    parent[last] = decode(special);
  }
  return root;
}

class Scan {
  readonly specials: { path: WirePath; special: unknown; object: object }[] = [];
  /** Buffers to hand over. */
  readonly moved = new Set<ArrayBuffer>();
  hasPartialViews = false;
  readonly #special: EncodeSpecial;
  readonly #seen = new Set<object>();

  constructor(special: EncodeSpecial) {
    this.#special = special;
  }

  visit(value: unknown, path: (string | number)[], inCollection = false): void {
    if (typeof value === "function" || typeof value === "symbol") fail(value, path);
    if (typeof value !== "object" || value === null) return;
    const special = this.#special(value);
    if (special !== undefined) {
      // An error in a Map is still cloned by structured clone; nothing else would survive there (W4).
      if (inCollection && !types.isNativeError(value)) fail(value, path, " inside a Map or a Set");
      if (!inCollection) this.specials.push({ path: [...path], special, object: value });
      return;
    }
    if (this.#seen.has(value)) return;
    this.#seen.add(value);
    if (ArrayBuffer.isView(value)) this.#visitView(value);
    else if (types.isArrayBuffer(value) && isMoving(value)) this.moved.add(value);
    else if (Array.isArray(value)) this.#visitArray(value, path, inCollection);
    else if (isPlain(value)) this.#visitObject(value, path, inCollection);
    else if (isExactly(value, Map)) this.#visitCollection([...value.entries()].flat(), path);
    else if (isExactly(value, Set)) this.#visitCollection([...value], path);
    else if (!isKnownCloneable(value)) fail(value, path);
  }

  #visitView(view: ArrayBufferView): void {
    const { buffer } = view;
    if (!isPooled(view) && isMoving(buffer)) this.moved.add(buffer);
    else this.hasPartialViews ||= isPartial(view);
  }

  #visitArray(value: unknown[], path: (string | number)[], inCollection: boolean): void {
    if (!isExactly(value, Array)) fail(value, path);
    for (let index = 0; index < value.length; index++) {
      const item = value[index];
      if (isPrimitive(item)) continue;
      path.push(index);
      this.visit(item, path, inCollection);
      path.pop();
    }
  }

  #visitObject(value: object, path: (string | number)[], inCollection: boolean): void {
    for (const [key, item] of Object.entries(value)) {
      if (isPrimitive(item)) continue;
      path.push(key);
      this.visit(item, path, inCollection);
      path.pop();
    }
  }

  #visitCollection(items: unknown[], path: (string | number)[]): void {
    for (const item of items) {
      path.push("<entry>");
      this.visit(item, path, true);
      path.pop();
    }
  }
}

function copyValue(
  value: unknown,
  replaced: ReadonlySet<object>,
  copies: Map<object, unknown>,
  moved: ReadonlySet<ArrayBufferLike>,
): unknown {
  if (typeof value !== "object" || value === null) return value;
  // The place is filled on the other side.
  if (replaced.has(value)) return null;
  if (copies.has(value)) return copies.get(value);
  if (ArrayBuffer.isView(value)) {
    const view = isPartial(value) && !moved.has(value.buffer) ? compactView(value) : value;
    copies.set(value, view);
    return view;
  }
  const copyItem = (item: unknown): unknown => copyValue(item, replaced, copies, moved);
  if (Array.isArray(value)) {
    const copy: unknown[] = new Array(value.length);
    copies.set(value, copy);
    value.forEach((item, index) => {
      copy[index] = copyItem(item);
    });
    return copy;
  }
  // An error in a Map or a Set is left to structured clone.
  const copyEntry = (item: unknown): unknown =>
    replaced.has(item as object) ? item : copyItem(item);
  if (value instanceof Map) {
    const copy = new Map<unknown, unknown>();
    copies.set(value, copy);
    for (const [key, item] of value) copy.set(copyEntry(key), copyEntry(item));
    return copy;
  }
  if (value instanceof Set) {
    const copy = new Set<unknown>();
    copies.set(value, copy);
    for (const item of value) copy.add(copyEntry(item));
    return copy;
  }
  if (!isPlain(value)) return value;
  const copy: Record<string, unknown> = Object.create(null);
  copies.set(value, copy);
  for (const [key, item] of Object.entries(value)) copy[key] = copyItem(item);
  return copy;
}

/** True for what a message carries without a look inside. */
export function isPrimitive(value: unknown): boolean {
  const type = typeof value;
  return type === "number" || type === "string" || type === "boolean" || value == null;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return !types.isProxy(value);
  return false;
}

function isExactly<T extends object>(
  value: object,
  Class: new (...args: never[]) => T,
): value is T {
  return Object.getPrototypeOf(value) === Class.prototype;
}

function isKnownCloneable(value: object): boolean {
  return (
    types.isAnyArrayBuffer(value) ||
    types.isNativeError(value) ||
    isExactly(value, Date) ||
    isExactly(value, RegExp) ||
    types.isBoxedPrimitive(value)
  );
}

function fail(value: unknown, path: WirePath, where = ""): never {
  throw new UncloneableError(`${describe(value)}${where} at ${pathText(path)} cannot be sent`);
}

function describe(value: unknown): string {
  if (typeof value === "function")
    return `a function${value.name === "" ? "" : ` (${value.name})`}`;
  if (typeof value === "symbol") return `a symbol (${String(value)})`;
  if (types.isProxy(value)) return "a Proxy";
  const name = (value as object).constructor?.name;
  return name === undefined || name === ""
    ? "an object of an unknown class"
    : `an instance of ${name}`;
}

function pathText(path: WirePath): string {
  if (path.length === 0) return "the top";
  return path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
    .join("")
    .replace(/^\./, "");
}
