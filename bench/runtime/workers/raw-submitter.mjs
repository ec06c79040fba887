// Submits calls to every port it was given, 1000 at a time in all.
import { parentPort } from "node:worker_threads";

const ports = [];
let open = 0;

parentPort.on("message", ({ port, calls }) => {
  if (port !== undefined) {
    ports.push(port);
    port.on("message", () => {
      open -= 1;
      if (open === 0) parentPort.postMessage("done");
    });
    return;
  }
  open = calls;
  for (let id = 0; id < calls; id++) ports[id % ports.length].postMessage({ id });
});
