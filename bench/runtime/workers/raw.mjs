// Raw ping-pong: echoes what it gets, moves back what was moved. Given a port, it serves that too.
import { parentPort } from "node:worker_threads";

function serve(port) {
  port.on("message", (message) => {
    if (message.port !== undefined) serve(message.port);
    else if (message.stream !== undefined) stream(message.stream);
    else if (message.move === true)
      port.postMessage(message, [message.value.ids.buffer, message.value.logProbs.buffer]);
    else port.postMessage(message);
  });
}

// The bare credit protocol: 16 items under way, an acknowledgement for every 8.
function stream({ port: lane, items, window }) {
  let credit = window;
  let next = 0;
  const run = () => {
    while (credit > 0 && next < items) {
      lane.postMessage(next++);
      credit -= 1;
    }
    if (next >= items) {
      lane.postMessage(-1);
      lane.close();
    }
  };
  lane.on("message", (acknowledged) => {
    credit += acknowledged;
    run();
  });
  run();
}

serve(parentPort);
