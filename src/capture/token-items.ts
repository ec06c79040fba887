/** Reads the token arrays of Responses output items that came from anywhere. */

/** An item with all three arrays, of any array type. Nothing about them is checked yet. */
export interface TokenItem {
  readonly prompt: ArrayLike<unknown>;
  readonly generation: ArrayLike<unknown>;
  readonly logProbs: ArrayLike<unknown>;
}

/** The items of `response.output` that carry generated token ids; none when it is no such response. */
export function generatedItems(response: unknown): object[] {
  return outputItems(response).filter((item) => {
    const generation = tokenArray(Reflect.get(item, "generation_token_ids"));
    return generation !== undefined && generation.length > 0;
  });
}

/** The objects in `response.output`. */
export function outputItems(response: unknown): object[] {
  const output: unknown =
    typeof response === "object" && response !== null ? Reflect.get(response, "output") : [];
  if (!Array.isArray(output)) return [];
  return output.filter((item): item is object => typeof item === "object" && item !== null);
}

/** True when each item's prompt holds only the tokens since the item before it. */
export function isDelta(response: unknown): boolean {
  return outputForm(response) === "delta";
}

/** `full` when the response does not say; undefined when it says something unknown. */
export function outputForm(response: unknown): "full" | "delta" | undefined {
  const form: unknown =
    typeof response === "object" && response !== null ? Reflect.get(response, "output_form") : null;
  if (form === undefined || form === null || form === "full") return "full";
  return form === "delta" ? form : undefined;
}

/** Undefined when the item has no token array; null when it has some but not all three. */
export function tokenItem(item: object): TokenItem | null | undefined {
  const names = ["prompt_token_ids", "generation_token_ids", "generation_log_probs"];
  const values = names.map((name): unknown => Reflect.get(item, name));
  if (values.every((value) => value === undefined)) return undefined;
  const [prompt, generation, logProbs] = values.map(tokenArray);
  if (prompt === undefined || generation === undefined || logProbs === undefined) return null;
  return { prompt, generation, logProbs };
}

/** True when both lists hold the same prompts and generations, item by item. */
export function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, index) => sameItem(item, b[index]));
}

function sameItem(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return false;
  return ["prompt_token_ids", "generation_token_ids"].every((name) => {
    const mine = tokenArray(Reflect.get(a, name));
    const theirs = tokenArray(Reflect.get(b, name));
    if (mine === undefined || theirs?.length !== mine.length) return false;
    for (let index = 0; index < mine.length; index += 1) {
      if (mine[index] !== theirs[index]) return false;
    }
    return true;
  });
}

function tokenArray(value: unknown): ArrayLike<unknown> | undefined {
  if (Array.isArray(value)) return value;
  if (value instanceof Int32Array || value instanceof Float64Array) return value;
  return undefined;
}
