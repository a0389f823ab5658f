/** Absolute path of the folder that holds the model in Hugging Face layout. */
export declare const modelPath: string;

/** Paths of a dataset's two sides: JSON lines, each `{ "messages": [{ "role", "content" }, …] }`. */
export interface DatasetPaths {
  readonly train: string;
  readonly heldout: string;
}

/**
 * The bundled datasets: `pirate` changes the model's way of speaking within a minute of fine-tuning; `arithmetic` asks
 * two-digit additions, a task for reinforcement learning.
 */
export declare const datasets: {
  readonly pirate: DatasetPaths;
  readonly arithmetic: DatasetPaths;
};
