// Builds every package that has a tsdown.config.ts, one after the other, in dependency order, and the examples in the package `tinklet`.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "tsdown";

const root = fileURLToPath(new URL("..", import.meta.url));
const only = process.argv.slice(2);
for (const name of [
  "wire",
  "models",
  "sdk",
  "engine",
  "server",
  "cookbook",
  "ai",
  "studio",
  "conformance",
  "browser",
  "tinklet",
]) {
  const cwd = `${root}packages/${name}`;
  if (!existsSync(`${cwd}/tsdown.config.ts`) || (only.length > 0 && !only.includes(name))) continue;
  await build({ cwd, config: `${cwd}/tsdown.config.ts`, logLevel: "warn" });
}
if (only.length === 0 || only.includes("tinklet")) await import("./build-examples.mjs");
