/** Comparisons of token id arrays at memory speed. */

function bytes(ids: Int32Array): Buffer {
  return Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength);
}

/** True when both hold the same ids. Views of the same memory are equal without a look at it. */
export function sameTokens(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false;
  if (a.buffer === b.buffer && a.byteOffset === b.byteOffset) return true;
  return bytes(a).equals(bytes(b));
}

/** True when `ids` begins with `first` followed by `second`. */
export function startsWith(ids: Int32Array, first: Int32Array, second: Int32Array): boolean {
  const middle = first.length;
  const end = middle + second.length;
  if (ids.length < end) return false;
  // The tail is short and differs most often.
  return (
    sameTokens(ids.subarray(middle, end), second) && sameTokens(ids.subarray(0, middle), first)
  );
}

/** How many leading ids are equal. Found by halves, so that memory speed holds up to the first difference. */
export function commonPrefixLength(a: Int32Array, b: Int32Array): number {
  let end = Math.min(a.length, b.length);
  if (sameTokens(a.subarray(0, end), b.subarray(0, end))) return end;
  let equal = 0;
  while (end - equal > 64) {
    const middle = (equal + end) >> 1;
    if (sameTokens(a.subarray(equal, middle), b.subarray(equal, middle))) equal = middle;
    else end = middle;
  }
  while (equal < end && a[equal] === b[equal]) equal += 1;
  return equal;
}
