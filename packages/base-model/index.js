// Where the model's files lie on this disk. Nothing is read here: the engine and the recipes open what they need.
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

export const modelPath = at(".");

export const datasets = {
  pirate: { train: at("data/pirate/train.jsonl"), heldout: at("data/pirate/heldout.jsonl") },
  arithmetic: { train: at("data/arithmetic/train.jsonl"), heldout: at("data/arithmetic/heldout.jsonl") },
};
