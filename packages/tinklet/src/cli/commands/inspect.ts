/** `inspect`: shows a data file as tokens, with the weight of each token in the loss. */
import type { TrainOn } from "@tinklet/cookbook";
import type { Tokenizer } from "@tinklet/sdk";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { writeWhole } from "../files.ts";
import { chosenModel, modelOptions, tokenizerFor } from "../model.ts";
import { formatCount } from "../output/format.ts";
import type { Output } from "../output/output.ts";
import { type Inspection, inspection, type ShownExample, someLines } from "../training/inspection.ts";
import { trainOnOption } from "../training/train-on.ts";

export const inspect: Command = {
  usage: "inspect DATA.jsonl [--train-on WHAT] [--out FILE.html]",
  about:
    "Shows a data file as tokens: green tokens are trained on, grey ones are context, red ones are truncated. Needs no server.",
  arguments: ["DATA"],
  options: {
    ...modelOptions,
    ...trainOnOption,
    "max-length": { type: "string", value: "N", about: "context length in tokens; longer examples are truncated" },
    limit: { type: "string", value: "N", about: "examples to show (default 3; in HTML 200)" },
    out: { type: "string", short: "o", value: "FILE", about: "write an HTML page" },
  },
  examples: ["inspect data.jsonl --local", "inspect data.jsonl --model Qwen/Qwen3-8B --out data.html"],
  async run(input, context) {
    const { readExamples, renderExamples } = await import("@tinklet/cookbook");
    const { output } = context;
    const [file = ""] = input.positionals;
    const model = await chosenModel(input, context, { askServer: false });
    const read = await readExamples(file);
    const tokenizer = await tokenizerFor(input, model);
    const trainOn = (input.text("train-on") ?? "all_answers") as TrainOn;
    const maxLength = input.integer("max-length", 2);
    const render = renderExamples(tokenizer, { trainOn });
    // If the chat template rewrites earlier answers, one conversation gives several examples with the same line number.
    const parts = read.flatMap((example) => render(example).map((one) => ({ example, one })));
    const [examples, rendered] = [parts.map(({ example }) => example), parts.map(({ one }) => one)];
    const found = inspection(file, examples, rendered, maxLength);
    const out = input.text("out");
    const limit = input.integer("limit", 0) ?? (out === undefined ? 3 : 200);
    const shown = rendered.slice(0, limit).map(({ tokens, weights }, at): ShownExample => {
      const texts = tokenTexts(tokens, tokenizer);
      return {
        line: examples[at]?.line ?? at + 1,
        tokens: tokens.map((id, i) => ({
          id,
          text: texts[i] ?? "",
          weight: weights[i] ?? 0,
          cut: i >= (maxLength ?? Infinity),
        })),
      };
    });
    if (out !== undefined) {
      const { inspectHtml } = await import("../training/inspect-html.ts");
      await writeWhole(out, inspectHtml(found, shown, input.text("tokenizer") ?? model.name));
      output.note(`Wrote ${out}`);
    }
    if (output.isJson) output.result({ json: { ...inspectionJson(found), shown }, columns: [], rows: [] });
    else {
      if (out === undefined) for (const example of shown) showExample(example, context);
      showFigures(found, output);
    }
    return 0;
  },
};

/** The figures with snake_case names, as in all JSON output. */
function inspectionJson({ lossTokens, maskedShare, ...rest }: Inspection): object {
  return { ...rest, loss_tokens: lossTokens, masked_share: maskedShare };
}

/**
 * The text of each token. A character that spans several tokens is shown with the last of them, so that the joined texts are
 * the original text.
 */
export function tokenTexts(tokens: readonly number[], tokenizer: Tokenizer): string[] {
  let pending: number[] = [];
  return tokens.map((token) => {
    pending.push(token);
    const text = tokenizer.decode(pending);
    if (text.includes("\ufffd") && pending.length < 4) return "";
    pending = [];
    return text;
  });
}

function showExample({ line, tokens }: ShownExample, { output }: Context): void {
  output.line(output.style(`line ${line}`, "dim"));
  const parts = tokens.map(({ text, weight, cut }) => {
    const visible = text.replaceAll("\n", output.settings.color ? "↵\n" : "\n");
    return output.style(
      visible,
      ...(cut ? (["red"] as const) : weight > 0 ? (["green"] as const) : (["gray"] as const)),
    );
  });
  // Without colours the trained tokens are in brackets.
  output.line(output.settings.color ? parts.join("") : bracketed(tokens));
  output.line();
}

function bracketed(tokens: ShownExample["tokens"]): string {
  return tokens
    .map(({ text, weight }, at) => {
      const [before, after] = [tokens[at - 1]?.weight ?? 0, tokens[at + 1]?.weight ?? 0];
      return `${weight > 0 && before === 0 ? "⟦" : ""}${text}${weight > 0 && after === 0 ? "⟧" : ""}`;
    })
    .join("");
}

function showFigures(found: Inspection, output: Output): void {
  const lines = (of: readonly number[]) => (of.length === 0 ? "none" : `${of.length} (line ${someLines(of)})`);
  output.result({
    json: inspectionJson(found),
    title: `${found.file}: ${formatCount(found.examples)} examples`,
    columns: ["Property", "Value"],
    rows: [
      ["Tokens", formatCount(found.tokens)],
      ["Learned", `${formatCount(found.lossTokens)} (${((1 - found.maskedShare) * 100).toFixed(1)} %)`],
      ["Length", `${found.shortest} shortest, ${found.median} median, ${found.longest} longest`],
      ["Cut off", lines(found.truncated)],
      ["Nothing to learn", lines(found.dropped)],
      ["Repeated", lines(found.duplicates.map(([line]) => line))],
    ],
  });
}
