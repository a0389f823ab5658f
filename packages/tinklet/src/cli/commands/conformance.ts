/** `conformance`: the black-box kit against any server of the Tinker API. Only parses and prints; the kit is its own package. */
import type { Command } from "../command.ts";
import { optionalPackage } from "../context.ts";
import { UsageError } from "../parse.ts";

export const conformance: Command = {
  usage: "conformance --base-url URL [--base-model NAME] [--only GROUP ...]",
  about:
    "Tests a server of the Tinker API from outside: wire, order, idempotency, losses, optimizer, checkpoints, sampling, errors.",
  options: {
    "base-model": {
      type: "string",
      value: "NAME",
      about: "the model to test with (default: the first the server names)",
    },
    only: { type: "string", multiple: true, value: "GROUP", about: "run these groups or cases only (repeatable)" },
  },
  examples: ["conformance --base-url http://127.0.0.1:8471", "conformance --base-url URL --only losses -f json"],
  async run(input, { output, signal }) {
    const baseUrl = input.text("base-url") ?? process.env["TINKER_BASE_URL"];
    if (baseUrl === undefined) throw new UsageError("conformance needs --base-url, or TINKER_BASE_URL");
    const kit = await optionalPackage(() => import("@tinklet/conformance"), "@tinklet/conformance");
    const [baseModel, only] = [input.text("base-model"), input.texts("only")];
    let done = 0;
    const report = await kit.runConformance({
      baseUrl,
      apiKey: input.text("api-key") ?? process.env["TINKER_API_KEY"] ?? "tml-conformance",
      signal,
      ...(baseModel === undefined ? {} : { baseModel }),
      ...(only.length === 0 ? {} : { only }),
      onCase: ({ id }) => output.progress(`${++done} cases, last ${id}`),
    });
    const ran = report.groups.flatMap(({ cases }) => cases.map(({ id }) => id));
    const unmatched = only.filter((name) => !ran.some((id) => id.startsWith(name)));
    if (unmatched.length > 0) throw new UsageError(`--only: no case is called ${unmatched.join(", ")}`);
    if (output.isJson) output.event(report);
    else output.line(kit.formatReport(report));
    return report.passed ? 0 : 1;
  },
};
