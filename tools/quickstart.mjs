// `npm run quickstart`: the README's first command. Builds the packages and calls the command of the same name.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

process.stderr.write("Building the packages (about ten seconds) …\n");
execFileSync(process.execPath, [fileURLToPath(new URL("build.mjs", import.meta.url))], { stdio: "inherit" });
const { main } = await import("../packages/tinklet/dist/cli/main.js");
process.exitCode = await main(["quickstart", ...process.argv.slice(2)]);
