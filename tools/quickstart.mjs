// `npm run quickstart`: the README's first command. All it does is call the command of the same name.
import { main } from "../packages/tinklet/dist/cli/main.js";

process.exitCode = await main(["quickstart", ...process.argv.slice(2)]);
