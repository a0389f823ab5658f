/** Prints the loss that `tinklet eval` computes for each example of a file, and the number of tokens that it is the mean of: `URL FILE`. */
import { compareOnData, evaluationItems, readExamples } from "../../../packages/cookbook/src/index.ts";
import { ServiceClient } from "../../../packages/sdk/src/index.ts";

const [baseUrl = "", file = ""] = process.argv.slice(2);
const service = new ServiceClient({ baseUrl, apiKey: "tml-chat" });
const sampler = await service.createSamplingClient({ baseModel: "tinklet/base" });
const items = evaluationItems(await readExamples(file), await sampler.getTokenizer());
const compared = await compareOnData([{ label: "base", sampler }], items, { name: "lm-eval", scores: [] });
for (const [at, { answers }] of compared.items.entries()) {
  const weights = items[at]?.data[0]?.lossFnInputs.weights.values ?? [];
  const tokens = Array.from(weights as ArrayLike<number>).filter((weight) => weight !== 0).length;
  console.log(JSON.stringify({ loss: answers[0]?.scores["loss"], tokens }));
}
await service.close();
