/** One text for one JSON value: keys sorted by code unit, no blanks. Iterative, so that no depth of nesting overflows. */
export function canonicalJson(value: unknown): string {
  const out: string[] = [];
  const pending: Piece[] = [{ value }];
  for (let piece = pending.pop(); piece !== undefined; piece = pending.pop()) {
    if ("text" in piece) out.push(piece.text);
    else if (Array.isArray(piece.value)) pushAll(pending, arrayPieces(piece.value));
    else if (typeof piece.value === "object" && piece.value !== null)
      pushAll(pending, objectPieces(piece.value as Readonly<Record<string, unknown>>));
    else out.push(JSON.stringify(piece.value) ?? "null");
  }
  return out.join("");
}

type Piece = { readonly text: string } | { readonly value: unknown };

/** Reversed, because the last one pushed is written first. */
function pushAll(pending: Piece[], pieces: readonly Piece[]): void {
  for (const piece of pieces.toReversed()) pending.push(piece);
}

function arrayPieces(values: readonly unknown[]): Piece[] {
  const inner = values.flatMap((value, index): Piece[] =>
    index === 0 ? [{ value }] : [{ text: "," }, { value }],
  );
  return [{ text: "[" }, ...inner, { text: "]" }];
}

function objectPieces(object: Readonly<Record<string, unknown>>): Piece[] {
  const keys = Object.keys(object)
    .filter((key) => object[key] !== undefined)
    .sort();
  const inner = keys.flatMap((key, index): Piece[] => [
    { text: `${index === 0 ? "" : ","}${JSON.stringify(key)}:` },
    { value: object[key] },
  ]);
  return [{ text: "{" }, ...inner, { text: "}" }];
}
