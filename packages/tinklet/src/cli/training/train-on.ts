/** The option of the commands that render training data. */
import type { TrainOn } from "@tinklet/cookbook";

const choices: readonly TrainOn[] = ["last_answer", "all_answers", "everything"];

export const trainOnOption = {
  "train-on": { type: "string", choices, about: "which tokens are learned (default all_answers)" },
} as const;
