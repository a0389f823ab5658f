/** GGUF constants about tokenizers that the reader and the writer share. */

/** GGML's token types. */
export const tokenType = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** Metadata key of a complete `tokenizer.json`, which llama.cpp ignores. */
export const originalDefinitionKey = "tokenizer.huggingface.json";
