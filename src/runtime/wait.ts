/** Ray's `wait`. */
import { checkDurationMs } from "./options.js";

/**
 * Resolves when `num` of the calls have ended, well or badly, or when the time is over: first those that have ended,
 * in the order they were given, then the others. It never rejects for a call, and leaves all of them alone.
 *
 * @param options.num 1 to the number of calls. Default 1.
 * @param options.timeoutMs Default: no limit. 0 looks at what has ended already.
 */
export async function wait<T>(
  calls: readonly Promise<T>[],
  options: { readonly num?: number; readonly timeoutMs?: number } = {},
): Promise<[ended: Promise<T>[], pending: Promise<T>[]]> {
  const { num = 1, timeoutMs } = options;
  if (!Number.isInteger(num) || num < 1 || num > calls.length)
    throw new RangeError(`wait: num is ${String(num)}; allowed is 1 to ${calls.length}`);
  if (timeoutMs !== undefined) checkDurationMs("wait: timeoutMs", timeoutMs);
  const ended = new Set<Promise<T>>();
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve) => {
    if (timeoutMs !== undefined) timer = setTimeout(resolve, timeoutMs);
    for (const call of calls) {
      const note = (): void => {
        ended.add(call);
        if (ended.size >= num) resolve();
      };
      call.then(note, note);
    }
  });
  clearTimeout(timer);
  return [calls.filter((call) => ended.has(call)), calls.filter((call) => !ended.has(call))];
}
