/** LoRA: rank, seed and the train_* flags are what the user asked for, seen in the adapter that the server hands out. */
import { type Adapter, downloadAdapter, select } from "../archive.ts";
import { group } from "../case.ts";
import { allClose, equal, fail, finite, holds, largestDifference } from "../checks.ts";
import { type Context, prompt } from "../context.ts";
import { datumOf, lesson, score } from "../data.ts";

type Flags = {
  trainAttn?: boolean;
  trainMlp?: boolean;
  trainUnembed?: boolean;
  rank?: number;
  seed?: number | undefined;
};

const attention = /\.(q|k|v|o|qkv)_proj\.lora_B/;
const mlp = /\.(gate|up|down|gate_up)_proj\.lora_B|\.w[123]\.lora_B|experts.*lora_B/;
const unembedding = /(lm_head|unembed|embed_out).*lora_(B|embedding_B)/;

/** The adapter after one step, or fresh. */
async function adapterWith(context: Context, options: Flags, trained = true): Promise<Adapter> {
  const trainer = await context.trainer(options as never);
  const learningRate = await context.measures.rate(context);
  if (trained) await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
  const { path } = await trainer.saveWeightsForSampler(context.uniqueName("lora"));
  return downloadAdapter(context, path);
}

/** Whether any of these tensors has left zero. */
const moved = (adapter: Adapter, pattern: RegExp): boolean =>
  select(adapter, pattern).some(([, { values }]) => values.some((value) => value !== 0));

const names = (adapter: Adapter) => [...adapter.tensors.keys()];

export const lora = group("lora", "rank, seed and the train_* flags are honoured", [
  [
    "all-flags",
    "the default trains everything; a server that leaves parts out learns less, silently",
    "attention, MLP and unembedding are adapted by default",
    async (context) => {
      const adapter = await adapterWith(context, {});
      holds(moved(adapter, attention), "attention projections after a step", "trained", names(adapter));
      holds(moved(adapter, mlp), "MLP projections after a step", "trained", names(adapter));
      holds(moved(adapter, unembedding), "the unembedding after a step", "trained", names(adapter));
    },
  ],
  [
    "no-attention",
    "flags that are dropped train what the user wanted frozen",
    "train_attn false leaves attention alone",
    async (context) => {
      const adapter = await adapterWith(context, { trainAttn: false });
      holds(!moved(adapter, attention), "attention projections, train_attn false", "untouched", names(adapter));
      holds(moved(adapter, mlp), "MLP projections", "trained", names(adapter));
    },
  ],
  [
    "no-mlp",
    "flags that are dropped train what the user wanted frozen",
    "train_mlp false leaves the MLP alone",
    async (context) => {
      const adapter = await adapterWith(context, { trainMlp: false });
      holds(!moved(adapter, mlp), "MLP projections, train_mlp false", "untouched", names(adapter));
      holds(moved(adapter, attention), "attention projections", "trained", names(adapter));
    },
  ],
  [
    "no-unembedding",
    "flags that are dropped train what the user wanted frozen",
    "train_unembed false leaves the unembedding alone",
    async (context) => {
      const adapter = await adapterWith(context, { trainUnembed: false });
      holds(!moved(adapter, unembedding), "the unembedding, train_unembed false", "untouched", names(adapter));
      holds(moved(adapter, attention), "attention projections", "trained", names(adapter));
    },
  ],
  [
    "rank",
    "rank is capacity, memory and price",
    "A is [rank, in], B is [out, rank], for every adapted matrix",
    async (context) => {
      const rank = 4;
      const adapter = await adapterWith(context, { rank }, false);
      const [a, b] = [select(adapter, /lora_A/), select(adapter, /lora_B/)];
      holds(
        a.length > 0 && a.length === b.length,
        "tensors of the archive",
        "pairs of lora_A and lora_B",
        names(adapter),
      );
      for (const [name, { shape }] of a) equal(shape[0], rank, `first dimension of ${name}`);
      for (const [name, { shape }] of b) equal(shape[1], rank, `second dimension of ${name}`);
      equal(adapter.config.r, rank, "r in adapter_config.json");
    },
  ],
  [
    "begins-at-base",
    "a fresh adapter must change nothing",
    "B begins at zero, A does not",
    async (context) => {
      const adapter = await adapterWith(context, {}, false);
      for (const [name, { values }] of select(adapter, /lora_B/)) {
        holds(
          values.every((value) => value === 0),
          `fresh ${name}`,
          "zeros",
          Array.from(values.slice(0, 4)),
        );
      }
      for (const [name, { values }] of select(adapter, /lora_A/)) {
        holds(
          values.some((value) => value !== 0),
          `fresh ${name}`,
          "numbers other than 0",
          "zeros",
        );
      }
    },
  ],
  [
    "fresh-equals-base",
    "training must start from the model that was named",
    "a fresh adapter gives the base model's log-probs",
    async (context) => {
      const seen = await score(await context.trainer());
      const sampler = await context.baseSampler();
      const base = (await sampler.computeLogprobs(prompt(lesson))).slice(1).map((value) => value ?? Number.NaN);
      const mean = base.reduce((total, value, i) => total + Math.abs(value - seen[i]!), 0) / base.length;
      holds(mean < 0.05, "mean difference between a fresh adapter and the base model", "below 0.05", mean);
    },
  ],
  [
    "seed",
    "experiments are repeated by their seed",
    "the same seed gives the same first weights",
    async (context) => {
      const [a, b] = [await adapterWith(context, { seed: 11 }, false), await adapterWith(context, { seed: 11 }, false)];
      for (const [name, { values }] of select(a, /lora_A/)) {
        allClose(b.tensors.get(name)?.values ?? [], values, 0, `${name} of the same seed`);
      }
    },
  ],
  [
    "other-seed",
    "a seed that is ignored makes repetitions look alike",
    "another seed gives other first weights",
    async (context) => {
      const [a, b] = [await adapterWith(context, { seed: 11 }, false), await adapterWith(context, { seed: 12 }, false)];
      const [name, { values }] = select(a, /lora_A/)[0] ?? fail("the archive", "a lora_A", names(a));
      const apart = largestDifference(values, b.tensors.get(name)?.values ?? []);
      holds(apart > 1e-6, `${name} of two seeds`, "different", "the same");
    },
  ],
  [
    "no-seed",
    "runs that name no seed should be independent of each other",
    "without a seed one is drawn",
    async (context) => {
      const fresh = () => adapterWith(context, { seed: undefined }, false);
      const [a, b] = [await fresh(), await fresh()];
      const [name, { values }] = select(a, /lora_A/)[0] ?? fail("the archive", "a lora_A", names(a));
      const apart = largestDifference(values, b.tensors.get(name)?.values ?? []);
      holds(apart > 1e-6, `${name} of two models without seeds`, "different", "the same");
    },
  ],
  [
    "alpha",
    "an exported adapter is scaled by alpha / r: a wrong alpha makes it another model",
    "adapter_config.json names lora_alpha, 32 at the official service",
    async (context) => {
      const { config } = await adapterWith(context, {}, false);
      equal(finite(config.lora_alpha, "lora_alpha"), 32, "lora_alpha");
    },
  ],
  [
    "bad-rank",
    "a rank of zero trains nothing",
    "rank 0 and negative ranks are refused",
    async (context) => {
      const session_id = await context.session();
      for (const [i, rank] of [0, -1].entries()) {
        const lora_config = { rank, train_attn: true, train_mlp: true, train_unembed: true };
        const body = { session_id, model_seq_id: i, base_model: context.baseModel, lora_config, type: "create_model" };
        await context.http.refused(`rank ${rank}`, "create_model", body);
      }
    },
  ],
  [
    "nothing-to-train",
    "a model without adapted parts cannot learn, and should say so",
    "all train_* flags false is refused",
    async (context) => {
      const lora_config = { rank: 4, train_attn: false, train_mlp: false, train_unembed: false };
      const body = {
        session_id: await context.session(),
        model_seq_id: 0,
        base_model: context.baseModel,
        lora_config,
        type: "create_model",
      };
      await context.http.refused("a model with nothing to train", "create_model", body);
    },
  ],
]);
