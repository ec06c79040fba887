import { expect, test } from "vitest";
import { KeptIds } from "../../../../src/actors/model-server/renderers/kept-ids.js";

const counted = (ids: number[]) => {
  const render = async () => {
    render.times += 1;
    return Int32Array.from(ids);
  };
  render.times = 0;
  return render;
};

test("I1. what is kept is rendered once, and survives what is done to the copies", async () => {
  const kept = new KeptIds();
  const render = counted([1, 2, 3]);
  const [first, together] = await Promise.all([kept.of("a", render), kept.of("a", render)]);
  first.fill(9);
  structuredClone(together, { transfer: [together.buffer as ArrayBuffer] });
  expect(await kept.of("a", render)).toEqual(Int32Array.of(1, 2, 3));
  expect(render.times).toBe(1);
  expect(await kept.of("b", counted([4]))).toEqual(Int32Array.of(4));
});

test("I2. long keys, failed renders and more than it holds are rendered again", async () => {
  const kept = new KeptIds();
  const render = counted([1]);
  const long = "x".repeat(4097);
  await kept.of(long, render);
  await kept.of(long, render);
  expect(render.times).toBe(2);

  await expect(kept.of("bad", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await kept.of("bad", counted([5]))).toEqual(Int32Array.of(5));

  const first = counted([7]);
  await kept.of("first", first);
  for (let index = 0; index < 256; index++) await kept.of(`other ${index}`, counted([index]));
  await kept.of("first", first);
  expect(first.times).toBe(2);
});
