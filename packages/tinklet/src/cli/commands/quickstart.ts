/** `quickstart`: a model learns on this machine while you watch. Everything it does can be done with the other commands. */
import type { Command } from "../command.ts";
import { bundledModelFolder } from "../model.ts";

export const quickstart: Command = {
  usage: "quickstart [--rl] [--out FOLDER] [--seed N]",
  about:
    "Fine-tunes the bundled model on this machine, in about a minute, and shows what it writes before and after.\n" +
    "With --rl it learns from a reward instead of from examples. No key, no network.",
  options: {
    rl: { type: "boolean", about: "reinforcement learning: a reward, no examples" },
    out: {
      type: "string",
      short: "o",
      value: "FOLDER",
      about: "record of the run (default runs/quickstart or runs/quickstart-rl)",
    },
    seed: { type: "string", value: "N", about: "default 0" },
    steps: { type: "string", value: "N", about: "fewer or more steps than usual" },
  },
  async run(input, context) {
    const model = await bundledModelFolder();
    const options = {
      model,
      out: input.text("out"),
      seed: input.integer("seed", 0) ?? 0,
      steps: input.integer("steps", 1),
    };
    const { quickstartByExamples } = await import("../quickstart/quickstart-examples.ts");
    const { quickstartByReward } = await import("../quickstart/quickstart-reward.ts");
    return input.flag("rl") ? quickstartByReward(options, context) : quickstartByExamples(options, context);
  },
};
