/** Reward over steps as an SVG: a line for each family, a thick one for their mean. */
const WIDTH = 720;
const HEIGHT = 360;
const MARGIN = 44;
const COLOURS = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677"];

/** Mean over a window, so that single groups do not hide the trend. Steps without the family are skipped. */
function smooth(points, window = 7) {
  return points.map(([x], i) => {
    const near = points.slice(Math.max(0, i - window + 1), i + 1);
    return [x, near.reduce((sum, [, y]) => sum + y, 0) / near.length];
  });
}

/** `steps`: `[{ step, byFamily: { say: 0.3, … }, mean }]`. */
export function rewardPlot(steps, families) {
  const last = Math.max(1, steps.at(-1)?.step ?? 1);
  const x = (step) => MARGIN + (step / last) * (WIDTH - 2 * MARGIN);
  const y = (reward) => HEIGHT - MARGIN - reward * (HEIGHT - 2 * MARGIN);
  const line = (points, colour, width) => {
    const path = smooth(points)
      .map(([px, py], i) => `${i === 0 ? "M" : "L"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`)
      .join(" ");
    return `<path d="${path}" fill="none" stroke="${colour}" stroke-width="${width}"/>`;
  };
  const pointsOf = (family) =>
    steps.flatMap(({ step, byFamily }) =>
      byFamily[family] === undefined ? [] : [[step, byFamily[family]]],
    );
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (value) =>
      `<path d="M${MARGIN} ${y(value)} H${WIDTH - MARGIN}" stroke="#ddd"/>` +
      `<text x="${MARGIN - 6}" y="${y(value) + 4}" text-anchor="end">${value}</text>`,
  );
  const legend = [...families, "mean"].map((name, i) => {
    const colour = COLOURS[i] ?? "#222";
    return `<text x="${MARGIN + 70 * i}" y="24" fill="${colour}">${name}</text>`;
  });
  const lines = families.map((family, i) => line(pointsOf(family), COLOURS[i], 1.5));
  const mean = line(
    steps.map(({ step, mean }) => [step, mean]),
    "#222",
    3,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
${[...grid, ...legend, ...lines, mean].join("\n")}
<text x="${WIDTH / 2}" y="${HEIGHT - 10}" text-anchor="middle">updates (0 to ${last}), reward of training rollouts</text>
</svg>
`;
}
