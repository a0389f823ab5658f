// Exports only the paths of the files; importing this module reads none of them.
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

export const modelPath = at(".");

export const datasets = {
  pirate: { train: at("data/pirate/train.jsonl"), heldout: at("data/pirate/heldout.jsonl") },
  arithmetic: { train: at("data/arithmetic/train.jsonl"), heldout: at("data/arithmetic/heldout.jsonl") },
};
