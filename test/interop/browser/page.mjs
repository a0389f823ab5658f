// What the page of the check can do; `check.mjs` calls these functions in the page.
import { browserModel, openStorage, startBrowserServer } from "@tinklet/browser";
import { formatReport, runConformance } from "@tinklet/conformance";
import { batchAt, drawn, examplesOf, promptOf, sampling, settings } from "./program.mjs";

const baseModel = "tinklet/base";
/** The workers of this page, so that the check can stop one. */
const workers = [];
let server;
let service;
let tokenizer;
let examples;
let trainer;

const model = (options) =>
  browserModel(baseModel, "/model/", {
    runtimeUrl: "/onnxruntime/",
    worker: () => {
      const worker = new Worker("/worker.js", { type: "module" });
      workers.push(worker);
      return worker;
    },
    ...options,
  });

/** What the check needs of an error. */
const plain = ({ name, code, message }) => ({ name, code, message });
const attempt = (work) => Promise.resolve(work()).then(() => undefined, plain);

const api = {
  async open({ options, storage } = {}) {
    server = await startBrowserServer({ models: [model(options)], storage: await openStorage(storage) });
    service = await server.connect({ logLevel: "off" });
    tokenizer = await service.getTokenizer(baseModel);
    return { isolated: globalThis.crossOriginIsolated };
  },
  failsToOpen: (options) => attempt(() => api.open(options)),
  async answer(path) {
    const sampler = await service.createSamplingClient(path === undefined ? { baseModel } : { modelPath: path });
    const { sequences } = await sampler.sample(promptOf(tokenizer), { samplingParams: sampling });
    return tokenizer.decode(sequences[0].tokens, { skipSpecialTokens: true });
  },
  async create() {
    examples ??= examplesOf(tokenizer, await (await fetch("/data/train.jsonl")).text());
    trainer = await service.createLoraTrainingClient({ baseModel, rank: settings.rank, seed: settings.seed });
    return trainer.modelId;
  },
  async resume() {
    examples ??= examplesOf(tokenizer, await (await fetch("/data/train.jsonl")).text());
    const [run] = server.runs();
    trainer = await service.createTrainingClientFromStateWithOptimizer(run.path);
    return run.step;
  },
  runs: () => server.runs(),
  batch: (step) =>
    batchAt(examples, step).map(({ tokens, targets, weights }) => ({
      modelInput: tokens,
      lossFnInputs: { target_tokens: targets, weights },
    })),
  backward: async (step) => (await trainer.forwardBackward(api.batch(step), "cross_entropy")).metrics["loss:sum"],
  /** Starts a step and does not wait for it. */
  begin(step) {
    trainer.forwardBackward(api.batch(step), "cross_entropy").catch(() => {});
    trainer.optimStep({ learningRate: settings.learningRate }).catch(() => {});
  },
  step: () => attempt(() => trainer.optimStep({ learningRate: settings.learningRate })),
  async train(from, to) {
    const losses = [];
    for (let step = from; step < to; step++) {
      const pass = trainer.forwardBackward(api.batch(step), "cross_entropy");
      const update = trainer.optimStep({ learningRate: settings.learningRate });
      losses.push((await pass).metrics["loss:sum"]);
      await update;
    }
    return losses;
  },
  async sample() {
    const sampler = await trainer.saveWeightsAndGetSamplingClient();
    const results = [];
    for (const samplingParams of [sampling, drawn]) {
      const { sequences } = await sampler.sample(promptOf(tokenizer), { samplingParams });
      results.push({ tokens: [...sequences[0].tokens], logprobs: [...sequences[0].logprobs] });
    }
    return results;
  },
  async forward(step) {
    const { lossFnOutputs } = await trainer.forward(api.batch(step), "cross_entropy");
    return lossFnOutputs.map(({ logprobs }) => [...logprobs.values]);
  },
  async save() {
    const { path: state } = await trainer.saveState("saved");
    const { path: weights } = await trainer.saveWeightsForSampler("saved");
    return { state, weights };
  },
  lastStep: () => `tinker://${trainer.modelId}/weights/last-step`,
  async export(path) {
    const files = await server.exportAdapter(path);
    return Object.fromEntries(
      Object.entries(files).map(([name, bytes]) => [name, bytes.toBase64?.() ?? base64(bytes)]),
    );
  },
  /** Exports an adapter and imports it again; returns the log-probs of the imported one. */
  async exportAndImport(path, step) {
    const imported = await server.importAdapter(await server.exportAdapter(path), { baseModel });
    trainer = await service.createTrainingClientFromState(imported);
    return api.forward(step);
  },
  stopWorker: () => workers.at(-1).terminate(),
  workers: () => workers.length,
  async conformance(only) {
    const report = await runConformance({ baseUrl: server.url, apiKey: "tml-page", fetch: server.fetch, only });
    return { text: formatReport(report), totals: report.totals };
  },
  memory: async () => {
    const { bytes } = await performance.measureUserAgentSpecificMemory();
    return bytes;
  },
  /** Makes IndexedDB refuse writes as it does without space; Chromium's override of the quota does not reach it. */
  setFull(isFull) {
    const { prototype } = IDBObjectStore;
    api.put ??= prototype.put;
    prototype.put = isFull
      ? () => {
          throw new DOMException("there is no space", "QuotaExceededError");
        }
      : api.put;
  },
  close: async () => {
    await service.close();
    await server.close();
  },
};

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}

globalThis.api = api;
