/** Absolute path of the model folder, in Hugging Face layout. */
export declare const modelPath: string;

/** Paths of a dataset's two splits: JSON lines, each `{ "messages": [{ "role", "content" }, …] }`. */
export interface DatasetPaths {
  readonly train: string;
  readonly heldout: string;
}

/**
 * The bundled datasets. `pirate` changes the model's writing style within a minute of supervised fine-tuning. `arithmetic` has two-digit
 * additions for reinforcement learning.
 */
export declare const datasets: {
  readonly pirate: DatasetPaths;
  readonly arithmetic: DatasetPaths;
};
