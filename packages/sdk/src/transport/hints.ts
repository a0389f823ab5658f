/**
 * What to do about a failure, in one sentence: the known traps of the service and of servers like it, recognised by
 * status, text and what the request was about. Adds no information that could be a secret.
 */

/** What is known about the request that failed. */
export interface FailureFacts {
  /** Operation of the contract, or the type of a future's request. */
  readonly operation: string;
  readonly status?: number | undefined;
  readonly message: string;
  readonly baseUrl?: string | undefined;
  /** Checkpoint that was to be loaded or sampled from. */
  readonly path?: string | undefined;
  readonly rank?: number | undefined;
  readonly baseModel?: string | undefined;
  readonly promptTokens?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly maxContextLength?: number | undefined;
}

type Trap = (facts: FailureFacts) => string | undefined;

const traps: readonly Trap[] = [
  ({ status }) =>
    status === 401
      ? "The server does not accept this key: check TINKER_API_KEY or apiKey, and that it belongs to this server."
      : undefined,
  ({ status }) =>
    status === 402
      ? "Billing is not in order: add a payment method or credit in the console, then run again."
      : undefined,
  ({ status }) =>
    status === 403
      ? "The key is good, but not for this: for another account's weights pass weightsAccessToken, or ask for them to be published."
      : undefined,
  ({ message, rank }) =>
    /\brank\b/i.test(message)
      ? `LoRA ranks are powers of two up to the model's limit${rank === undefined ? "" : `; ${rank} was asked for`}. Try 8, 16, 32 or 64.`
      : undefined,
  checkpointKind,
  contextOverflow,
  ({ message }) =>
    /\b(nan|inf(inity)?|non-?finite)\b/i.test(message)
      ? "A number in the batch is NaN or infinite: look at weights, advantages and logprobs, and at divisions by zero when they are made."
      : undefined,
  ({ status, operation, message, baseModel }) =>
    (operation === "createModel" || operation === "createSamplingSession" || operation === "CreateModel") &&
    (status === 404 || /model.*(not|un)\b.*(found|supported|available|known)|unknown.*model/i.test(message))
      ? `${baseModel === undefined ? "The model" : baseModel} is not served here: getServerCapabilities() lists the models that are.`
      : undefined,
  ({ status, operation, baseUrl }) =>
    status === 404 && operation === "clientConfig"
      ? `Is ${baseUrl ?? "the base URL"} a Tinker server? Its API is expected under /api/v1.`
      : undefined,
  ({ status }) =>
    status === 413 ? "The request is too large for the server: send fewer or shorter examples at once." : undefined,
  ({ status }) =>
    status === 429 ? "Too much at once: lower the number of concurrent calls, or wait and run again." : undefined,
];

function checkpointKind({ status, message, path, operation }: FailureFacts): string | undefined {
  if (path === undefined) return undefined;
  // What cannot be read at all is not a matter of its kind.
  if (status === 404 || /not found|no such|there is no|expired|deleted|may read/i.test(message)) {
    return "The checkpoint may have expired (ttlSeconds), been deleted, or belong to another account that has not published it: listCheckpoints shows what is left.";
  }
  const loads = /load/i.test(operation) || operation === "weightsInfo";
  if (loads && path.includes("/sampler_weights/")) {
    return "This checkpoint was saved for sampling and cannot be trained on: load one made by saveState (tinker://…/weights/…).";
  }
  const samples = /sampl/i.test(operation);
  if (samples && path.includes("/weights/")) {
    return "This checkpoint was saved for training: to sample, save with saveWeightsForSampler (tinker://…/sampler_weights/…).";
  }
  return undefined;
}

function contextOverflow(facts: FailureFacts): string | undefined {
  const { message, promptTokens, maxTokens, maxContextLength } = facts;
  if (!/context|too long|max(imum)?[ _]?(sequence|seq|model)?[ _-]?len/i.test(message)) return undefined;
  const parts = [
    promptTokens === undefined ? undefined : `the input has ${promptTokens} tokens`,
    maxTokens === undefined ? undefined : `maxTokens is ${maxTokens}`,
    promptTokens === undefined || maxTokens === undefined ? undefined : `together ${promptTokens + maxTokens}`,
    maxContextLength === undefined ? undefined : `the model's context is ${maxContextLength}`,
  ].filter((part) => part !== undefined);
  const numbers = parts.length === 0 ? "" : `: ${parts.join(", ")}`;
  return `The input does not fit into the model's context${numbers}. Shorten the input or lower maxTokens.`;
}

/** The sentence for the first trap that fits, or `undefined`. */
export function hintFor(facts: FailureFacts): string | undefined {
  for (const trap of traps) {
    const hint = trap(facts);
    if (hint !== undefined) return hint;
  }
  return undefined;
}
