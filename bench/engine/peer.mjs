// A peer process that answers one JSON line per command.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export const startPeer = async (command, args) => {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", process.env.BENCH_DEBUG ? "inherit" : "ignore"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${command} ${args[0]} ended early; BENCH_DEBUG=1 shows why`);
    return JSON.parse(value);
  };
  const ready = await next();
  return {
    ready,
    ask: (name, given = {}) => {
      child.stdin.write(`${JSON.stringify({ do: name, ...given })}\n`);
      return next();
    },
    quit: async () => {
      const gone = once(child, "exit");
      child.stdin.end(`${JSON.stringify({ do: "quit" })}\n`);
      await gone;
    },
  };
};
