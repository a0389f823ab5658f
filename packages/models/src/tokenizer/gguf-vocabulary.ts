/** The words of GGUF about tokenizers that its reader and its writer share. */

/** GGML's kinds of tokens. */
export const tokenType = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** A whole `tokenizer.json`, which files may carry beside what llama.cpp reads. */
export const wholeDefinitionKey = "tokenizer.huggingface.json";
