// Loaded before `tinklet serve` of the drill (NODE_OPTIONS --import): counts what a starting server does to its files, its database and its
// port, and kills the process before the step TINKLET_KILL_AT. Without a number it writes the count to TINKLET_KILL_COUNT at the end.
// The process that `serve --detach` was typed in, and worker threads, are left alone.
import fs from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import net from "node:net";
import { isMainThread } from "node:worker_threads";

if (isMainThread && process.argv.includes("serve") && !process.argv.includes("--detach")) {
  const at = Number(process.env.TINKLET_KILL_AT ?? Number.NaN);
  const { appendFileSync } = fs;
  let steps = 0;
  const count = (name) => {
    steps++;
    if (steps !== at) return;
    appendFileSync(process.env.TINKLET_KILL_COUNT, `killed before step ${steps}: ${name}\n`);
    process.kill(process.pid, "SIGKILL");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); // the signal is delivered in a moment
  };
  const wrap = (holder, name) => {
    const original = holder[name];
    holder[name] = function (...args) {
      count(name);
      return Reflect.apply(original, this, args);
    };
  };
  const files = [
    "open",
    "mkdir",
    "rename",
    "rm",
    "unlink",
    "writeFile",
    "chmod",
    "readdir",
    "readFile",
    "stat",
    "fsync",
  ];
  for (const name of files) {
    if (name in fs.promises) wrap(fs.promises, name);
    wrap(fs, `${name}Sync`);
  }
  for (const name of ["writeSync", "closeSync", "ftruncateSync"]) wrap(fs, name);
  wrap(net.Server.prototype, "listen");
  wrap(net.Server.prototype, "close");
  const Database = createRequire(import.meta.url)("libsql");
  for (const name of ["exec", "prepare", "close"]) wrap(Database.prototype, name);
  wrap(process.stdout, "write");
  syncBuiltinESMExports();
  process.on("exit", () => appendFileSync(process.env.TINKLET_KILL_COUNT, `${steps} steps\n`));
}
