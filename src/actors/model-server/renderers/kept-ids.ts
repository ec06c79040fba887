/**
 * The ids of short renders, so that the same words are rendered and encoded once: a group's rollouts begin alike, and
 * harnesses say the same things again.
 *
 * I1. What is given out is a copy: nobody changes, or moves to another thread, what is kept.
 * I2. Bounded by number and by length; a render that failed is not kept.
 */

const MAX_KEPT = 256;
const MAX_KEY_LENGTH = 4096;

export class KeptIds {
  readonly #ids = new Map<string, Promise<Int32Array>>();

  /** @param key Everything that the render depends on. */
  async of(key: string, render: () => Promise<Int32Array>): Promise<Int32Array> {
    if (key.length > MAX_KEY_LENGTH) return render(); // I2
    const known = this.#ids.get(key);
    if (known !== undefined) return (await known).slice(); // I1
    if (this.#ids.size >= MAX_KEPT) this.#ids.clear();
    const ids = render();
    this.#ids.set(key, ids);
    try {
      return (await ids).slice();
    } catch (error) {
      if (this.#ids.get(key) === ids) this.#ids.delete(key);
      throw error;
    }
  }
}
