/** One text for one JSON value: keys sorted by code unit, no blanks. Iterative, so that no depth of nesting overflows. */
export function canonicalJson(value: unknown): string {
  const out: string[] = [];
  const pending: Piece[] = [pieceOf(value)];
  for (let piece = pending.pop(); piece !== undefined; piece = pending.pop()) {
    if (typeof piece === "string") out.push(piece);
    else if (Array.isArray(piece)) pushArray(pending, piece);
    else pushObject(pending, piece as Readonly<Record<string, unknown>>);
  }
  return out.join("");
}

/** Text that is written already, or an array or object that is still to be. */
type Piece = string | object;

function pieceOf(value: unknown): Piece {
  if (typeof value === "object" && value !== null) return value;
  return JSON.stringify(value) ?? "null";
}

/** From the end, because the last one pushed is written first. */
function pushArray(pending: Piece[], values: readonly unknown[]): void {
  pending.push("]");
  for (let i = values.length - 1; i >= 0; i--) {
    pending.push(pieceOf(values[i]));
    if (i > 0) pending.push(",");
  }
  pending.push("[");
}

function pushObject(pending: Piece[], object: Readonly<Record<string, unknown>>): void {
  const keys = Object.keys(object)
    .filter((key) => object[key] !== undefined)
    .sort();
  pending.push("}");
  for (let i = keys.length - 1; i >= 0; i--) {
    const key = keys[i] ?? "";
    pending.push(pieceOf(object[key]), `${i > 0 ? "," : ""}${JSON.stringify(key)}:`);
  }
  pending.push("{");
}
