interface PolicyDatum {
  readonly tokens: Int32Array;
  readonly lossFnInputs: {
    readonly target_tokens: { readonly data: Int32Array };
    readonly logprobs: { readonly data: Float32Array };
    readonly advantages: { readonly data: Float32Array };
  };
}

export function conversations(options: {
  readonly count: number;
  readonly turns: number;
  readonly vocabSize: number;
  readonly seed: number;
}): { readonly prompt: readonly number[]; readonly datum: PolicyDatum }[][];
