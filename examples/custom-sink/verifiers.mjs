/** The reward of this example: 1 for an answer, 0 for none. */
export function answered({ finalText }) {
  return finalText === null || finalText === "" ? 0 : 1;
}
