/** Reads a file as `tinklet train` does, and prints the number of its examples. */
import { readExamples } from "../../../packages/cookbook/src/index.ts";

const examples = await readExamples(process.argv[2] as string);
const withTools = examples.filter((example) => example.kind === "chat" && example.tools !== undefined);
console.log(`${examples.length} examples, ${withTools.length} with tools`);
