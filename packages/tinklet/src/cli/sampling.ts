/** Shared by `sample`, `chat` and the quickstart: opens a sampler for a model or a checkpoint, and samples text. */

import { statSync } from "node:fs";
import type { SamplingClient, Tokenizer } from "@tinklet/sdk";
import type { SampleResponse, SamplingParamsInput } from "@tinklet/wire";
import { importAdapter, isAdapterFolder } from "./checkpoint/adapter-folder.ts";
import type { OptionSpec } from "./command.ts";
import type { Context } from "./context.ts";
import { type ChosenModel, chosenModel, modelOptions, tokenizerFor } from "./model.ts";
import { CliError } from "./output/explain.ts";
import { ShownText } from "./output/shown-text.ts";
import { type Input, UsageError } from "./parse.ts";
import { resolveCheckpoint } from "./references.ts";

export const samplingOptions: Readonly<Record<string, OptionSpec>> = {
  ...modelOptions,
  from: {
    type: "string",
    value: "CHECKPOINT",
    about: "NAME, NAME@CHECKPOINT, @latest, a run folder, tinker://…, or a PEFT adapter folder",
  },
  "max-tokens": { type: "string", value: "N", about: "maximum length of the answer (default 128)" },
  temperature: { type: "string", short: "t", value: "T", about: "0 is greedy decoding (default 1)" },
  "top-p": { type: "string", value: "P", about: "default 1" },
  "top-k": { type: "string", value: "K", about: "default: all" },
  seed: { type: "string", value: "N", about: "random seed; the same seed gives the same text" },
  stop: { type: "string", multiple: true, value: "TEXT", about: "stop string (repeatable)" },
};

export interface Opened {
  readonly sampler: SamplingClient;
  readonly tokenizer: Tokenizer;
  /** Name of the base model, or path of the checkpoint. */
  readonly name: string;
  /** What the user calls it, for messages. */
  readonly title: string;
}

/** Opens the sampler of `--model` or `--from`. */
export async function openSampler(input: Input, context: Context): Promise<Opened> {
  const { signal } = context;
  const from = input.text("from");
  checkFrom(from);
  const given = input.text("model");
  const model: ChosenModel | undefined =
    from === undefined || given !== undefined ? await chosenModel(input, context) : undefined;
  const service = await context.service(model?.serve ?? []);
  if (from === undefined) {
    const { name } = model as ChosenModel;
    const sampler = await service.createSamplingClient({ baseModel: name, signal });
    const tokenizer = await tokenizerFor(input, model as ChosenModel, () => sampler.getTokenizer({ signal }));
    return { sampler, tokenizer, name, title: name };
  }
  const rest = service.createRestClient();
  const path = isAdapterFolder(from)
    ? await importAdapter(from, model?.name, context)
    : await resolveCheckpoint(from, "sampler", async () => rest);
  const { baseModel } = await rest.getWeightsInfoByTinkerPath(path, { signal });
  const sampler = await service.createSamplingClient({ modelPath: path, signal });
  const tokenizer = await tokenizerFor(input, model ?? { name: baseModel, serve: [] }, () =>
    sampler.getTokenizer({ signal }),
  );
  return { sampler, tokenizer, name: path, title: from === "@latest" ? path : from };
}

/** A file is never a checkpoint. @throws {@link UsageError} with the option that takes it */
export function checkFrom(from: string | undefined): void {
  if (from === undefined || statSync(from, { throwIfNoEntry: false })?.isFile() !== true) return;
  const advice = /\.gguf$/i.test(from) ? `; a GGUF file is a model: --model ${from}` : "";
  throw new UsageError(`--from must be a checkpoint, a run folder or an adapter folder, not the file ${from}${advice}`);
}

export function samplingParams(input: Input): SamplingParamsInput {
  const given = {
    temperature: input.number("temperature", 0),
    topP: input.number("top-p", 0),
    topK: input.integer("top-k"),
    seed: input.integer("seed", 0),
  };
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const stop = input.texts("stop");
  return { maxTokens: input.integer("max-tokens", 1) ?? 128, ...set, ...(stop.length === 0 ? {} : { stop }) };
}

/** A sampled text, without the end token. */
export interface Written {
  readonly text: string;
  readonly tokens: number;
  readonly stopReason: string;
}

/** The parameters with the model's end-of-text tokens as stop tokens, unless stop strings are set. */
function withStop(tokenizer: Tokenizer, params: SamplingParamsInput): SamplingParamsInput {
  const texts = params.stop === undefined ? [] : ([params.stop].flat() as (string | number)[]);
  const stop = texts.length > 0 ? { stop: texts as string[] } : { stop: [...tokenizer.eosTokenIds] };
  return { ...params, ...(stop.stop.length === 0 ? {} : stop) };
}

function written(tokenizer: Tokenizer, { sequences }: SampleResponse): Written[] {
  return sequences.map(({ tokens, stopReason }) => {
    const end = tokens.findIndex((token) => tokenizer.eosTokenIds.includes(token));
    const kept = end < 0 ? tokens : tokens.slice(0, end);
    return { text: tokenizer.decode(kept), tokens: tokens.length, stopReason: String(stopReason) };
  });
}

/** Samples texts for a prompt. */
export async function write(
  { sampler, tokenizer }: Pick<Opened, "tokenizer"> & { readonly sampler: Pick<SamplingClient, "sample"> },
  prompt: readonly number[],
  params: SamplingParamsInput,
  options: { readonly numSamples?: number; readonly signal?: AbortSignal } = {},
): Promise<Written[]> {
  if (prompt.length === 0) throw new CliError("The prompt is empty.");
  return written(tokenizer, await sampler.sample(prompt, { ...options, samplingParams: withStop(tokenizer, params) }));
}

/**
 * Samples one text and streams it if the server supports streaming.
 *
 * @param show - receives the parts of the text
 */
export async function writeLive(
  opened: Opened,
  prompt: readonly number[],
  params: SamplingParamsInput,
  context: Context,
  options: { readonly trimmed: boolean; readonly show: (piece: string) => void },
): Promise<Written> {
  const { sampler, tokenizer } = opened;
  const { signal } = context;
  if (prompt.length === 0) throw new CliError("The prompt is empty.");
  const shown = new ShownText(options);
  const stream = sampler.stream(prompt, { signal, tokenizer, samplingParams: withStop(tokenizer, params) });
  let ended = false; // the end token and tokens after it are not shown
  for await (const { token, text = "" } of stream) {
    ended ||= tokenizer.eosTokenIds.includes(token);
    const piece = ended ? "" : shown.add(text);
    if (piece !== "") options.show(piece);
  }
  const [{ text, ...rest }] = written(tokenizer, await stream.response) as [Written];
  const final = options.trimmed ? text.trim() : text;
  // If incremental decoding differs from the decoded whole, the whole text is shown again.
  const left = final.startsWith(shown.text) ? final.slice(shown.text.length) : `\n${final}`;
  if (left !== "") options.show(left);
  return { text: final, ...rest };
}
