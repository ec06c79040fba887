/** An array or object that is being written. */
interface Open {
  readonly container: Readonly<Record<string | number, unknown>>;
  /** Null for an array. */
  readonly keys: readonly string[] | null;
  readonly length: number;
  at: number;
}

/** One text for one JSON value: keys sorted by code unit, no blanks. Iterative, so that no depth of nesting overflows. */
export function canonicalJson(value: unknown): string {
  const stack: Open[] = [];
  let text = "";
  for (let next = value; ; ) {
    if (typeof next === "object" && next !== null) {
      const opened = open(next);
      stack.push(opened);
      text += opened.keys === null ? "[" : "{";
    } else text += JSON.stringify(next) ?? "null";

    let top = stack.at(-1);
    for (; top !== undefined && top.at === top.length; top = stack.at(-1)) {
      text += top.keys === null ? "]" : "}";
      stack.pop();
    }
    if (top === undefined) return text;
    if (top.at > 0) text += ",";
    const key = top.keys?.[top.at];
    if (key !== undefined) text += `${JSON.stringify(key)}:`;
    next = top.container[key ?? top.at];
    top.at += 1;
  }
}

function open(value: object): Open {
  const container = value as Open["container"];
  if (Array.isArray(value)) return { container, keys: null, length: value.length, at: 0 };
  const keys = Object.keys(value)
    .filter((key) => container[key] !== undefined)
    .sort();
  return { container, keys, length: keys.length, at: 0 };
}
