/** `conformance`: runs the suite of `@tinklet/conformance` against a server and prints its report. */
import type { Group } from "@tinklet/conformance";
import { omitUndefined } from "@tinklet/wire/options";
import type { Command } from "../command.ts";
import { nearest, UsageError } from "../parse.ts";

export const conformance: Command = {
  usage: "conformance --base-url URL [--base-model NAME] [--only GROUP ...]",
  about:
    "Tests a server of the Tinker API over HTTP, in groups: routes, encoding, sessions, ordering, idempotency, futures, losses,\n" +
    "optimizer, lora, checkpoints, sampling, errors, newer, newer-sampling (features of releases after 0.25), restart.",
  options: {
    "base-model": {
      type: "string",
      value: "NAME",
      about: "the model to test with (default: the first the server names)",
    },
    only: {
      type: "string",
      multiple: true,
      value: "GROUP",
      about: "run this group (losses) or case (losses/ppo) only (repeatable)",
    },
  },
  examples: ["conformance --base-url http://127.0.0.1:8471", "conformance --base-url URL --only losses -f json"],
  async run(input, { output, signal }) {
    const baseUrl = input.text("base-url") ?? process.env["TINKER_BASE_URL"];
    if (baseUrl === undefined) throw new UsageError("conformance needs --base-url, or TINKER_BASE_URL");
    const kit = await import("@tinklet/conformance");
    const [baseModel, only] = [input.text("base-model"), input.texts("only")];
    checkOnly(only, kit.groups);
    let done = 0;
    const report = await kit.runConformance({
      baseUrl,
      apiKey: input.text("api-key") ?? process.env["TINKER_API_KEY"] ?? "tml-conformance",
      signal,
      ...omitUndefined({ baseModel }),
      ...(only.length === 0 ? {} : { only }),
      onCase: ({ id }) => output.progress(`${++done} cases, last ${id}`),
    });
    if (output.isJson) {
      const { baseUrl: base_url, baseModel: base_model, ...rest } = report;
      output.event({ ...rest, base_url, base_model });
    } else output.line(kit.formatReport(report));
    return report.passed ? 0 : 1;
  },
};

/** Rejects unknown groups and cases before the server is called. */
function checkOnly(only: readonly string[], groups: readonly Group[]): void {
  const names = groups.map(({ name }) => name);
  const ids = groups.flatMap(({ cases }) => cases.map(({ id }) => id));
  for (const name of only) {
    if (names.includes(name) || ids.some((id) => id.startsWith(name))) continue;
    const group = name.split("/")[0] as string;
    if (names.includes(group)) {
      const own = ids.filter((id) => id.startsWith(`${group}/`));
      throw new UsageError(`--only: unknown case ${name}; ${group} has ${own.join(", ")}`);
    }
    const close = nearest(group, names);
    throw new UsageError(
      `--only: unknown group or case ${name}.${close === undefined ? "" : ` Did you mean ${close}?`} The groups: ${names.join(", ")}`,
    );
  }
}
