// `node --import loaded.mjs program`: writes the address of every module that the program loads to standard error, one a line.
import { writeSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

export async function load(url, context, next) {
  writeSync(2, `loaded ${url}\n`);
  return next(url, context);
}
if (isMainThread) (await import("node:module")).register(import.meta.url);
