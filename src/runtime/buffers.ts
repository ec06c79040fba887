/** Buffers that cross threads without a silent copy: handed over by `move`, shared by `putShared`, or cut to size. */
import { types } from "node:util";

/** A typed array of any kind. */
export type TypedArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/** The same kind of array over shared memory. */
export type SharedView<T extends TypedArray> = T extends Int8Array
  ? Int8Array<SharedArrayBuffer>
  : T extends Uint8Array
    ? Uint8Array<SharedArrayBuffer>
    : T extends Uint8ClampedArray
      ? Uint8ClampedArray<SharedArrayBuffer>
      : T extends Int16Array
        ? Int16Array<SharedArrayBuffer>
        : T extends Uint16Array
          ? Uint16Array<SharedArrayBuffer>
          : T extends Int32Array
            ? Int32Array<SharedArrayBuffer>
            : T extends Uint32Array
              ? Uint32Array<SharedArrayBuffer>
              : T extends Float32Array
                ? Float32Array<SharedArrayBuffer>
                : T extends Float64Array
                  ? Float64Array<SharedArrayBuffer>
                  : T extends BigInt64Array
                    ? BigInt64Array<SharedArrayBuffer>
                    : T extends BigUint64Array
                      ? BigUint64Array<SharedArrayBuffer>
                      : never;

const moving = new WeakSet<ArrayBufferLike>();

/**
 * Marks a typed array or its buffer to be handed over, not copied, with the next call, result or stream item it is
 * part of; the sender's is detached then (length 0). The whole buffer goes, also below a small view; a `Buffer` that
 * lies in Node's pool is copied.
 */
export function move<T extends ArrayBufferView | ArrayBuffer>(value: T): T {
  moving.add(ArrayBuffer.isView(value) ? value.buffer : value);
  return value;
}

/** True for a buffer that `move` marked. A detached one is none: in a transfer list it would be lost without a word. */
export function isMoving(buffer: ArrayBufferLike): buffer is ArrayBuffer {
  return moving.has(buffer) && buffer.byteLength > 0;
}

/** The mark holds for one message: a later one must not detach again what its sender has kept. */
export function endMove(buffer: ArrayBuffer): void {
  moving.delete(buffer);
}

/** A copy of `view` in shared memory, as `Runtime.put` gives it. */
export function putShared<T extends TypedArray>(view: T): SharedView<T> {
  const shared = new SharedArrayBuffer(view.byteLength);
  new Uint8Array(shared).set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  return viewLike(view, shared) as SharedView<T>;
}

/** True for a view on less than half of its buffer, all of which structured clone would copy. */
export function isPartial(view: ArrayBufferView): boolean {
  return !types.isSharedArrayBuffer(view.buffer) && view.byteLength * 2 < view.buffer.byteLength;
}

/** True for a view on memory that other `Buffer`s of the thread use too. */
export function isPooled(view: ArrayBufferView): boolean {
  return Buffer.isBuffer(view) && view.buffer.byteLength > view.byteLength;
}

/** A copy of just the view's bytes. */
export function compactView(view: ArrayBufferView): ArrayBufferView {
  return viewLike(view, view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

function viewLike(view: ArrayBufferView, memory: ArrayBufferLike): ArrayBufferView {
  // A Buffer arrives as a Uint8Array whichever way it is sent.
  if (view instanceof Uint8Array) return new Uint8Array(memory);
  const View = view.constructor as new (buffer: ArrayBufferLike) => ArrayBufferView;
  return new View(memory);
}
