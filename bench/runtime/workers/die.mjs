// Every way to die, noting the time of the last step in shared memory. As an entry: a raw thread that dies at once.
import { workerData } from "node:worker_threads";

const nowMs = () => performance.timeOrigin + performance.now();

export function die(route, clock) {
  if (route === "heap OOM") {
    const kept = [];
    for (;;) {
      kept.push(new Array(1000).fill(kept.length));
      clock[0] = nowMs();
    }
  }
  clock[0] = nowMs();
  if (route === "process.exit") process.exit(3);
  if (route === "infinite loop") for (;;);
  if (route === "timer throw")
    setTimeout(() => {
      clock[0] = nowMs();
      throw new Error("late");
    });
  if (route === "unhandled rejection") void Promise.reject(new Error("unheard"));
}

if (workerData?.dieBy !== undefined) {
  if (workerData.dieBy === "terminate()") setInterval(() => {}, 1000);
  else die(workerData.dieBy, workerData.clock);
}
