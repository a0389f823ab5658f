/**
 * One training-and-sampling program for every server of the Tinker API: only the URL, the key and the model's name change. Teaches
 * a sequence, saves, samples what was taught, and says what it saw. Uses nothing that only one server has.
 */
import { Datum, ModelInput, ServiceClient } from "tinklet";

export interface ProgramResult {
  readonly baseModel: string;
  /** Mean log-prob of the lesson's tokens before and after the training. */
  readonly before: number;
  readonly after: number;
  /** How many of the lesson's tokens greedy sampling gives back. */
  readonly recalled: number;
  readonly of: number;
}

const lesson = [17, 4, 23, 9, 28, 5, 12, 30, 7, 19, 25, 11];

export async function trainAndSample(options: {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly baseModel?: string | undefined;
}): Promise<ProgramResult> {
  const { baseUrl, apiKey } = options;
  const service = await ServiceClient.connect({ baseUrl, apiKey, telemetry: false, maxRetries: 4 });
  try {
    const { supportedModels } = await service.getServerCapabilities();
    const baseModel = options.baseModel ?? supportedModels[0]?.modelName ?? "";
    const trainer = await service.createLoraTrainingClient({ baseModel, rank: 16, seed: 1 });
    const batch = [
      new Datum({
        modelInput: ModelInput.fromInts(lesson.slice(0, -1)),
        lossFnInputs: { target_tokens: lesson.slice(1), weights: lesson.slice(1).map(() => 1) },
      }),
    ];
    const meanLogprob = async () => {
      const output = await trainer.forward(batch, "cross_entropy");
      const values = Array.from(output.lossFnOutputs[0]!["logprobs"]!.values, Number);
      return values.reduce((sum, value) => sum + value, 0) / values.length;
    };
    const before = await meanLogprob();
    for (let step = 0; step < 40; step++) {
      const pass = trainer.forwardBackward(batch, "cross_entropy"); // both are on the queue
      const update = trainer.optimStep({ learningRate: 5e-3 }); // before either is awaited
      await pass;
      await update;
    }
    const after = await meanLogprob();
    const sampler = await trainer.saveWeightsAndGetSamplingClient();
    const { sequences } = await sampler.sample(ModelInput.fromInts(lesson.slice(0, 2)), {
      samplingParams: { maxTokens: lesson.length - 2, temperature: 0 },
    });
    const expected = lesson.slice(2);
    const recalled = sequences[0]!.tokens.filter((token, i) => token === expected[i]).length;
    return { baseModel, before, after, recalled, of: expected.length };
  } finally {
    await service.close();
  }
}
