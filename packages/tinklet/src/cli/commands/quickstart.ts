/** `quickstart`: trains the bundled model on this machine. The other commands can do the same separately. */
import type { Command } from "../command.ts";
import { bundledModelFolder } from "../model.ts";

export const quickstart: Command = {
  usage: "quickstart [--rl] [--out FOLDER] [--seed N]",
  about:
    "Fine-tunes the bundled model on this machine, in under a minute, and shows its answers before and after.\n" +
    "With --rl it trains with a reward instead of examples. Needs no key and no network.",
  options: {
    rl: { type: "boolean", about: "reinforcement learning with a reward, without examples" },
    out: {
      type: "string",
      short: "o",
      value: "FOLDER",
      about: "run folder (default runs/quickstart or runs/quickstart-rl)",
    },
    seed: { type: "string", value: "N", about: "default 0" },
    steps: { type: "string", value: "N", about: "number of steps (default: one epoch, or 20 with --rl)" },
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
