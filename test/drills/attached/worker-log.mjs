// Loaded before the programs of a drill (NODE_OPTIONS --import): notes each worker thread that is started, in WORKER_LOG. The engine is one.
import { appendFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import threads from "node:worker_threads";

if (threads.isMainThread) {
  threads.Worker = class extends threads.Worker {
    constructor(file, ...rest) {
      appendFileSync(process.env.WORKER_LOG, `${process.pid} ${String(file)}\n`);
      super(file, ...rest);
    }
  };
  syncBuiltinESMExports();
}
