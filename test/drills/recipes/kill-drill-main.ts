/**
 * A recipe as a process of its own, for the kill drill: it ends itself without any farewell (SIGKILL) at one of its requests, before
 * the request is sent or after the reply has come. Options come as one JSON argument; what came of it goes to standard output.
 */
import { runRecipe } from "@tinklet/cookbook";
import { loadTokenizer, ServiceClient } from "tinklet";
import dpo from "../../../packages/cookbook/recipes/dpo.ts";
import mathRl from "../../../packages/cookbook/recipes/math-rl.ts";
import distillation from "../../../packages/cookbook/recipes/on-policy-distillation.ts";
import sft from "../../../packages/cookbook/recipes/sft.ts";

const recipes = { sft, dpo, "math-rl": mathRl, "on-policy-distillation": distillation };

interface Options {
  readonly url: string;
  readonly model: string;
  readonly recipe: keyof typeof recipes;
  readonly folder: string;
  readonly maxSteps: number;
  readonly saveEvery: number;
  readonly kill?: { readonly request: number; readonly when: "before" | "after" };
}

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
const { url, model, recipe, folder, maxSteps, saveEvery, kill } = options;
const die = () => process.kill(process.pid, "SIGKILL");
let requests = 0;
/** How often a result is asked for depends on time, so these are not counted. */
const counts = (address: string) => !/retrieve_future|heartbeat|telemetry/.test(address);
const service = new ServiceClient({
  ...{ baseUrl: url, apiKey: "tml-drill", logLevel: "off", telemetry: false },
  fetch: async (input, init) => {
    const own = counts(String(input)) ? ++requests : 0; // the SDK gives an address, never a Request
    if (own > 0 && own === kill?.request && kill.when === "before") die();
    const reply = await fetch(input, init);
    if (own > 0 && own === kill?.request) die();
    return reply;
  },
});
const tokenizer = await loadTokenizer(model);
const result = await runRecipe(recipes[recipe], {
  ...{ service, baseModel: "tinklet/base", tokenizer, folder, seed: 3, maxSteps, saveEvery },
});
await service.close();
process.stdout.write(`${JSON.stringify({ requests, result })}\n`);
