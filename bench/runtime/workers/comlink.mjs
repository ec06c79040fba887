import { parentPort } from "node:worker_threads";
import { expose, transfer } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";

expose(
  {
    empty: () => undefined,
    echo: (value) => value,
    moveBack: (value) => transfer(value, [value.ids.buffer, value.logProbs.buffer]),
  },
  nodeEndpoint(parentPort),
);
