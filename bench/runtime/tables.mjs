// Prints what was measured, and whether it holds what the runtime promises.
import { median, ratios, spread } from "./measure.mjs";

/** Ray's own figures, calls a second. Source: ray-project/ray, release/perf_metrics/microbenchmark.json, 08444c4cf99b. */
const RAY = {
  "1_1_actor_calls_sync": "2 012 ± 34",
  "1_1_actor_calls_async": "8 664 ± 184",
  n_n_actor_calls_async: "27 376 ± 675",
};

const thousands = (value) =>
  value >= 1e6
    ? `${(value / 1e6).toFixed(2)}M`
    : value >= 1000
      ? `${(value / 1000).toFixed(1)}k`
      : value.toFixed(0);

export function printRatios(rates) {
  console.log("Operations a second, median; in brackets the ratio to raw, median [quartiles]\n");
  const names = ["raw", "corral", "comlink", "piscina", "tinypool"];
  console.log(`| cell | ${names.join(" | ")} |\n|${"---|".repeat(names.length + 1)}`);
  for (const [cell, byPeer] of Object.entries(rates)) {
    const columns = names.map((name) => {
      const values = byPeer[name];
      if (values === undefined) return "-";
      if (name === "raw") return thousands(median(values));
      const own = ratios(values, byPeer.raw);
      const [low, high] = spread(own);
      return `${thousands(median(values))} (${median(own).toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}])`;
    });
    console.log(`| ${cell} | ${columns.join(" | ")} |`);
  }
}

export function printStart({ startMs, idleMiB }) {
  const [low, high] = spread(startMs);
  console.log(
    `\nSpawn until ready: ${median(startMs).toFixed(1)} ms [${low.toFixed(1)}, ${high.toFixed(1)}]`,
  );
  console.log(`Memory of an idle actor without imports: ${idleMiB.toFixed(1)} MiB`);
}

/** Wall-clock rates fall with the load of the machine; this does not. */
export function printPerCpuSecond({ raw, corral }) {
  console.log(
    `Stream items for each second of processor time of both threads: raw ${thousands(median(raw))}, Corral ${thousands(median(corral))}`,
  );
}

export function printRay(rates) {
  console.log("\n| | Corral, thread to thread | Ray, as published |\n|---|---|---|");
  for (const [cell, ray] of Object.entries(RAY))
    console.log(`| ${cell} | ${thousands(median(rates[cell].corral))} | ${ray} |`);
  console.log(
    "Ray's figures are from other hardware, between processes, with ownership, retries and many nodes.",
  );
}

/** @returns false when one of them does not hold. */
export function printChecks(rates, { idleMiB }) {
  const of = (cell, base) => median(ratios(rates[cell].corral, rates[cell][base]));
  const movedToCopied = median(ratios(rates["128kB_moved"].corral, rates["128kB_copied"].corral));
  const checks = [
    ["one call at a time / raw", of("1_1_actor_calls_sync", "raw"), 0.5, true],
    ["100 in flight / raw", of("100_in_flight", "raw"), 0.2, true],
    ["100 in flight / plain Comlink", of("100_in_flight", "comlink"), 1.3, true],
    ["128 kB moved / copied", movedToCopied, 3, true],
    ["stream, window 16, items a second", median(rates.stream_window_16.corral), 150_000, true],
    ["MiB of an idle actor", idleMiB, 12, false],
  ];
  console.log("\n| check | measured | bound | |\n|---|---|---|---|");
  let hold = true;
  for (const [name, value, bound, atLeast] of checks) {
    const holds = atLeast ? value >= bound : value <= bound;
    hold &&= holds;
    console.log(
      `| ${name} | ${value.toFixed(2)} | ${atLeast ? "≥" : "≤"} ${bound} | ${holds ? "holds" : "FAILS"} |`,
    );
  }
  return hold;
}
