/** The command line from its sources, for suites that bundle it instead of building every package. */
import { main } from "../../../packages/tinklet/src/cli/main.ts";

process.exitCode = await main(process.argv.slice(2));
