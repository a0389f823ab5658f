/**
 * Public benchmarks as tasks, from files that a user has (or the Hub): GSM8K, MMLU and IFEval by the shape of their rows. Nothing
 * is bundled. A row of another shape is an error with its line.
 */

import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions } from "@tinklet/wire/options";
import { DataError } from "../data/data-error.ts";
import { type ReadDataOptions, readData } from "../data/read-data.ts";
import { checkInstruction, type Instruction, instructionIds } from "./instructions.ts";
import { type EvalTask, multipleChoice, type SampledTask, scored } from "./tasks.ts";

/** Options of the loaders. */
export interface BenchmarkOptions extends Partial<SampledTask>, ReadDataOptions {
  /** The first so many rows. @defaultValue all */
  readonly limit?: number;
}

const optionNames = {
  name: true,
  maxTokens: true,
  samples: true,
  temperature: true,
  passAt: true,
  limit: true,
  signal: true,
  onProgress: true,
} as const;

/** A row that is an object, and how to refuse it. */
interface Row {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly fail: (problem: string) => never;
}

async function rowsOf(source: string, shape: string, options: BenchmarkOptions): Promise<Row[]> {
  checkOptions("benchmark", options, optionNames);
  const { limit = Number.POSITIVE_INFINITY, signal, onProgress } = options;
  if (!(limit >= 1)) throw new InvalidInputError("limit", `must be at least 1, got ${limit}`);
  const rows: Row[] = [];
  for await (const { value, file, line } of readData(source, { signal, ...(onProgress && { onProgress }) })) {
    const fail = (problem: string): never => {
      throw new DataError({ file, line }, problem, { hint: shape });
    };
    if (typeof value !== "object" || value === null || Array.isArray(value)) return fail("must be an object");
    rows.push({ fields: value as Record<string, unknown>, fail });
    if (rows.length >= limit) break;
  }
  if (rows.length === 0) throw new DataError({ file: source }, "has no rows", { hint: shape });
  return rows;
}

const textOf = ({ fields, fail }: Row, name: string): string => {
  const value = fields[name];
  return typeof value === "string" && value.trim() !== "" ? value : fail(`${name} must be a string`);
};

const sampled = (options: BenchmarkOptions, name: string, maxTokens: number): SampledTask => {
  const { samples, temperature, passAt } = options;
  return {
    name: options.name ?? name,
    maxTokens: options.maxTokens ?? maxTokens,
    ...(samples !== undefined && { samples }),
    ...(temperature !== undefined && { temperature }),
    ...(passAt !== undefined && { passAt }),
  };
};

/** A number as people write it: `$1,234.50` is 1234.5. */
const numberIn = (text: string): number | undefined => {
  const found = /-?\d[\d,]*(?:\.\d+)?/.exec(text.replace(/\$/g, ""))?.[0];
  return found === undefined ? undefined : Number(found.replace(/,/g, ""));
};

/**
 * The final number of an answer: the one after `####` or in `\boxed{…}`, else the last number. `undefined` if the answer has no number.
 *
 * @example
 * ```ts
 * finalNumber("She has 3 + 4 = 7 eggs. #### 7"); // 7
 * ```
 */
export function finalNumber(answer: string): number | undefined {
  const marked = /####\s*([^\n]*)/.exec(answer)?.[1] ?? /\\boxed\{([^}]*)\}/.exec(answer)?.[1];
  const last = marked ?? answer.match(/-?\$?\d[\d,]*(?:\.\d+)?/g)?.at(-1);
  return last === undefined ? undefined : numberIn(last);
}

/**
 * Word problems with a number as their answer, as GSM8K has them: `{"question": …, "answer": "… #### 18"}`.
 *
 * @param source - a file, or a dataset of the Hub: `openai/gsm8k:main/test`
 * @throws {@link DataError} naming file and line.
 *
 * @example
 * ```ts
 * const [result] = await evaluate(sampler, [await gsm8k("gsm8k-test.jsonl", { limit: 200 })], { chat, tokenizer });
 * ```
 */
export async function gsm8k(source: string, options: BenchmarkOptions = {}): Promise<EvalTask> {
  const rows = await rowsOf(source, 'Each row is {"question": "…", "answer": "… #### 18"}.', options);
  const items = rows.map((row) => {
    const answer = row.fields["answer"];
    const number = typeof answer === "number" ? answer : finalNumber(textOf(row, "answer"));
    const question = `${textOf(row, "question")}\n\nThink step by step, then give the number on a last line: #### number`;
    return { question, number: number ?? row.fail("answer has no number") };
  });
  return scored({
    ...sampled(options, "gsm8k", 512),
    items,
    score: (text, { number }) => {
      const said = finalNumber(text);
      return said === undefined ? undefined : Number(said === number);
    },
  });
}

const letters = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"];

/**
 * Multiple choice as MMLU has it, by the log-probability of the letters: `{"question": …, "choices": […], "answer": 0}`, where `answer` is an
 * index or a letter; columns `A`, `B`, `C`, `D` may replace `choices`.
 *
 * @param source - a file (CSV with a line of names), or a dataset of the Hub: `cais/mmlu:all/test`
 * @throws {@link DataError} naming file and line.
 */
export async function mmlu(source: string, options: BenchmarkOptions = {}): Promise<EvalTask> {
  const shape =
    'Each row is {"question": "…", "choices": ["…", …], "answer": 0}, or has columns question, A, B, C, D, answer.';
  const rows = await rowsOf(source, shape, options);
  const items = rows.map((row) => {
    const { choices: given, answer } = row.fields;
    const choices = given === undefined ? letters.flatMap((letter) => row.fields[letter] ?? []) : given;
    if (!Array.isArray(choices) || choices.length < 2 || choices.length > letters.length)
      return row.fail(`choices must be a list of 2 to ${letters.length}`);
    const own = letters.slice(0, choices.length);
    const index =
      typeof answer === "string" && !/^\d+$/.test(answer.trim()) ? own.indexOf(answer.trim()) : Number(answer ?? -1);
    if (own[index] === undefined) return row.fail(`answer must be an index below ${choices.length} or a letter`);
    const listed = choices.map((choice, at) => `${own[at]}. ${String(choice)}`).join("\n");
    const question = `${textOf(row, "question")}\n\n${listed}\n\nAnswer with the letter alone.`;
    return { question, choices: own, answer: index };
  });
  return multipleChoice({ name: options.name ?? "mmlu", items });
}

/**
 * Instructions that a program can check, as IFEval has them: `{"prompt": …, "instruction_id_list": […], "kwargs": […]}`. A prompt counts where
 * all of its instructions were followed (prompt-level, strict). Prompts with an instruction that cannot be checked here
 * (`language:response_language`) are left out; the task's name says how many.
 *
 * @param source - a file, or a dataset of the Hub: `google/IFEval`
 * @throws {@link DataError} naming file and line.
 */
export async function ifeval(source: string, options: BenchmarkOptions = {}): Promise<EvalTask> {
  const shape = 'Each row is {"prompt": "…", "instruction_id_list": ["…"], "kwargs": [{…}]}.';
  const rows = await rowsOf(source, shape, options);
  const items = rows.flatMap((row) => {
    const { instruction_id_list: ids, kwargs = [] } = row.fields;
    if (!Array.isArray(ids) || ids.length === 0) return row.fail("instruction_id_list must be a list of names");
    if (!Array.isArray(kwargs)) return row.fail("kwargs must be a list");
    const instructions = ids.map((id, at): Instruction => ({ id: String(id), settings: (kwargs[at] ?? {}) as object }));
    if (instructions.some(({ id }) => !instructionIds.includes(id))) return [];
    return [{ question: textOf(row, "prompt"), instructions }];
  });
  const left = rows.length - items.length;
  if (items.length === 0) throw new DataError({ file: source }, "has no prompt whose instructions can be checked");
  const name = left === 0 ? "ifeval" : `ifeval (${left} of ${rows.length} left out)`;
  return scored({
    ...sampled(options, name, 1024),
    items,
    score: (text, { question, instructions }) =>
      text === "" ? undefined : Number(instructions.every((one) => checkInstruction(one, text, question))),
  });
}
