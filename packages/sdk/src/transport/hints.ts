/**
 * Hints for known failures of Tinker servers, recognised by status, message and facts about the request. Hints contain no secrets.
 */

import type { Hint, HintPart } from "@tinklet/wire/errors";

/** Facts about the failed request. */
export interface FailureFacts {
  /** Operation of the contract, or request type of a future. */
  readonly operation: string;
  readonly status?: number | undefined;
  readonly message: string;
  readonly baseUrl?: string | undefined;
  /** Path of the checkpoint to load or to sample from. */
  readonly path?: string | undefined;
  readonly rank?: number | undefined;
  readonly baseModel?: string | undefined;
  readonly promptTokens?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly maxContextLength?: number | undefined;
}

type Trap = (facts: FailureFacts) => Hint | undefined;

const traps: readonly Trap[] = [
  ({ status }) =>
    status === 401
      ? [
          "The server does not accept this key: check TINKER_API_KEY or ",
          { name: "apiKey" },
          ", and that it belongs to this server.",
        ]
      : undefined,
  ({ status }) => (status === 402 ? "Add a payment method or credit in the console, then run again." : undefined),
  ({ status }) =>
    status === 403
      ? [
          "The key is valid but has no access to this. For another account's weights, pass ",
          { name: "weightsAccessToken" },
          ", or ask the owner to publish them.",
        ]
      : undefined,
  ({ message, rank }) =>
    /\brank\b/i.test(message)
      ? `LoRA ranks must be powers of two up to the model's limit${rank === undefined ? "" : `, got ${rank}`}. Try 8, 16, 32 or 64.`
      : undefined,
  checkpointKind,
  contextOverflow,
  ({ message }) =>
    /\b(nan|inf(inity)?|non-?finite)\b/i.test(message)
      ? "A number in the batch is NaN or infinite: check weights, advantages and logprobs for divisions by zero."
      : undefined,
  ({ status, operation, message, baseModel }) =>
    (operation === "createModel" || operation === "createSamplingSession" || operation === "CreateModel") &&
    (status === 404 || /model.*(not|un)\b.*(found|supported|available|known)|unknown.*model/i.test(message))
      ? [
          `${baseModel ?? "The model"} is not served here: `,
          { name: "getServerCapabilities()" },
          " lists the available models.",
        ]
      : undefined,
  ({ status, operation, baseUrl }) =>
    status === 404 && operation === "clientConfig"
      ? `Check that ${baseUrl ?? "the base URL"} is a Tinker server; its API must be at /api/v1.`
      : undefined,
  ({ status }) =>
    status === 413 ? "The request is too large for the server: send fewer or shorter examples per call." : undefined,
  ({ status }) => (status === 429 ? "Lower the number of concurrent calls, or wait and run again." : undefined),
];

function checkpointKind({ status, message, path, operation }: FailureFacts): Hint | undefined {
  if (path === undefined) return undefined;
  // A checkpoint that cannot be read may be of either kind.
  if (status === 404 || /not found|no such|there is no|expired|deleted|may read/i.test(message)) {
    return [
      "The checkpoint may have expired, been deleted, or belong to another account that has not published it: ",
      { name: "listCheckpoints" },
      " lists those that exist.",
    ];
  }
  const loads = /load/i.test(operation) || operation === "weightsInfo";
  if (loads && path.includes("/sampler_weights/")) {
    return [
      "This checkpoint was saved for sampling and cannot be trained on: load one saved by ",
      { name: "saveState" },
      " (tinker://…/weights/…).",
    ];
  }
  const samples = /sampl/i.test(operation);
  if (samples && path.includes("/weights/")) {
    return [
      "This checkpoint was saved for training: to sample, use one saved by ",
      { name: "saveWeightsForSampler" },
      " (tinker://…/sampler_weights/…).",
    ];
  }
  return undefined;
}

function contextOverflow(facts: FailureFacts): Hint | undefined {
  const { message, promptTokens, maxTokens, maxContextLength } = facts;
  if (!/context|too long|max(imum)?[ _]?(sequence|seq|model)?[ _-]?len/i.test(message)) return undefined;
  const numbers: HintPart[] = [];
  const add = (...parts: readonly HintPart[]) => numbers.push(numbers.length === 0 ? ": " : ", ", ...parts);
  if (promptTokens !== undefined) add(`the input has ${promptTokens} tokens`);
  if (maxTokens !== undefined) add({ name: "maxTokens" }, ` is ${maxTokens}`);
  if (promptTokens !== undefined && maxTokens !== undefined) add(`together ${promptTokens + maxTokens}`);
  if (maxContextLength !== undefined) add(`the model's context is ${maxContextLength}`);
  return [
    "The input does not fit into the model's context",
    ...numbers,
    ". Shorten the input or lower ",
    { name: "maxTokens" },
    ".",
  ];
}

/** The hint of the first rule that matches, or `undefined`. */
export function hintFor(facts: FailureFacts): Hint | undefined {
  for (const trap of traps) {
    const hint = trap(facts);
    if (hint !== undefined) return hint;
  }
  return undefined;
}
