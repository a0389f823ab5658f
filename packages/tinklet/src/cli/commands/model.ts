/** `model list`: the models of the server. */
import { TinkerError } from "@tinklet/wire/errors";
import type { Command } from "../command.ts";
import { CliError } from "../output/explain.ts";
import { formatBool } from "../output/format.ts";

export const modelList: Command = {
  usage: "model list [SUBSTRING]",
  about:
    "Lists the models that the server offers; SUBSTRING keeps those whose name contains it, ignoring case.\n" +
    "Pass the name in the Model column as --model, or as baseModel.",
  arguments: ["SUBSTRING?"],
  examples: ["model list", "model list qwen"],
  async run({ positionals: [substring] }, context) {
    const { signal, output } = context;
    const service = await context.service();
    const { supportedModels } = await service.getServerCapabilities({ signal });
    const wanted = substring?.toLowerCase();
    const models = supportedModels.filter(
      ({ modelName }) => wanted === undefined || modelName?.toLowerCase().includes(wanted),
    );
    if (wanted !== undefined && models.length === 0) {
      const org = await service
        .createRestClient()
        .whoami({ signal })
        .then(
          ({ orgUrn }) => (orgUrn === undefined ? "" : ` for organization ${orgUrn}`),
          (error: unknown) => {
            if (error instanceof TinkerError) return ""; // servers without access tokens have no organizations
            throw error;
          },
        );
      throw new CliError(`No model name contains '${substring}'${org}`, {
        hint: "Run npx tinklet model list to see all models.",
      });
    }
    const said = (value: boolean | undefined) => (value === undefined ? "N/A" : formatBool(value));
    output.result({
      columns: ["Model", "Max Context", "Trainable", "Sampleable"],
      rows: models.map(({ modelName, maxContextLength, trainable, sampleable }) => [
        modelName ?? "N/A",
        String(maxContextLength ?? "N/A"),
        said(trainable),
        said(sampleable),
      ]),
      json: {
        models: models.map(({ modelName, maxContextLength, trainable, sampleable }) => ({
          model_name: modelName ?? null,
          max_context_length: maxContextLength ?? null,
          trainable: trainable ?? null,
          sampleable: sampleable ?? null,
        })),
      },
    });
  },
};
