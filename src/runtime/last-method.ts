/** The name of the method an actor started last, in memory that survives the actor's thread. */

const BYTES = 256;
const encoder = new TextEncoder();
const encoded = new Map<string, Uint8Array>();

export function createLastMethod(): SharedArrayBuffer {
  return new SharedArrayBuffer(BYTES);
}

/** Names longer than 255 bytes are cut. */
export function writeLastMethod(memory: SharedArrayBuffer, method: string): void {
  const name = encodedName(method);
  const bytes = new Uint8Array(memory);
  bytes.set(name, 1);
  bytes[0] = name.length;
}

/** Undefined when no method was started. */
export function readLastMethod(memory: SharedArrayBuffer): string | undefined {
  const bytes = new Uint8Array(memory);
  const length = bytes[0] ?? 0;
  // TextDecoder refuses shared memory, hence the copy.
  return length === 0 ? undefined : new TextDecoder().decode(bytes.slice(1, 1 + length));
}

function encodedName(method: string): Uint8Array {
  let name = encoded.get(method);
  if (name === undefined) {
    name = encoder.encode(method).subarray(0, BYTES - 1);
    // Only methods that exist come here, so the table is as small as the class.
    encoded.set(method, name);
  }
  return name;
}
