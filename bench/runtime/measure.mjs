// Interleaved measurement: in each repetition every library runs every cell once, in rotating order, and only
// ratios within a repetition are compared, since the machine's speed drifts.

/** Operations a second of `run(n)`, which does about `n` of them, over at least `ms`. */
export async function rate(run, ms) {
  const startedAt = performance.now();
  let done = 0;
  let elapsedMs = 0;
  while (elapsedMs < ms) {
    done += await run();
    elapsedMs = performance.now() - startedAt;
  }
  return (done / elapsedMs) * 1000;
}

/**
 * @param cells `{ [cell]: { [peer]: () => Promise<number> } }`: each does a batch and returns how many operations.
 * @returns `{ [cell]: { [peer]: number[] } }`: rates, by repetition.
 */
export async function interleaved(cells, { repetitions, ms, onRepetition }) {
  const rates = {};
  for (let repetition = 0; repetition < repetitions; repetition++) {
    for (const [cell, runs] of Object.entries(cells)) {
      const names = Object.keys(runs);
      for (let turn = 0; turn < names.length; turn++) {
        const name = names[(turn + repetition) % names.length];
        rates[cell] ??= {};
        rates[cell][name] ??= [];
        rates[cell][name][repetition] = await rate(runs[name], ms);
      }
    }
    onRepetition?.(repetition + 1);
  }
  return rates;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** First and third quartile. */
export function spread(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return [at(0.25), at(0.75)];
}

export function ratios(values, base) {
  return values.map((value, index) => value / base[index]);
}
