// The job in Node, Bun and Deno: prints its result as one line of JSON.
import { trainAndSample } from "./program.mjs";

console.log(JSON.stringify(await trainAndSample(process.env.PACKAGE_CHECK_URL)));
