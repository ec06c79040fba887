/** Nearest-rank percentile of numbers in any order. */
export function percentile(values, rank) {
  const sorted = Float64Array.from(values).sort();
  return (
    sorted[Math.min(sorted.length - 1, Math.ceil((rank / 100) * sorted.length) - 1)] ?? Number.NaN
  );
}

export const median = (values) => percentile(values, 50);

/** Three significant digits. */
export function figure(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))) : "–";
}

export function printTable(head, rows) {
  const lines = [head, head.map(() => ""), ...rows].map((row) => row.map(String));
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  for (const [index, line] of lines.entries()) {
    const cells = line.map((cell, column) => cell.padEnd(widths[column], index === 1 ? "-" : " "));
    console.log(`| ${cells.join(" | ")} |`);
  }
  console.log();
}
