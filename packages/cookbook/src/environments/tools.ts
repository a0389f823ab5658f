/** Tools from plain functions: the schema of their arguments comes from any standard-schema validator, which also checks what the model wrote. */
import type { ChatTool, ToolCall } from "@tinklet/models/chat";
import { InvalidInputError } from "@tinklet/sdk";

/** The part of the Standard Schema that is used: zod, Valibot and ArkType have it. */
export interface StandardSchema<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>;
    /** Newer validators give their JSON schema. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => unknown };
    readonly types?: { readonly input: unknown; readonly output: T } | undefined;
  };
}
type StandardResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] };

/** Options of {@link tool}. */
export interface ToolOptions<T> {
  readonly name: string;
  /** What it does, for the model. */
  readonly description?: string;
  /** Checks the arguments. */
  readonly parameters: StandardSchema<T>;
  /** JSON schema of the arguments, for the model. @defaultValue the validator's own */
  readonly jsonSchema?: unknown;
  readonly run: (args: T, signal: AbortSignal) => unknown;
}

/** A tool that a model can be given and call. */
export interface Tool {
  readonly definition: ChatTool;
  /** Runs it with arguments as the model wrote them. Returns the result as text, or an error message for the model. */
  call(args: string, signal: AbortSignal): Promise<ToolAnswer>;
}

/** The answer of a tool. */
export interface ToolAnswer {
  readonly content: string;
  /** Whether the arguments were not usable, or the function threw. */
  readonly isError: boolean;
}

/**
 * Makes a tool of a function.
 *
 * @throws InvalidInputError when the name is not usable, or the arguments have no JSON schema.
 *
 * @example
 * ```ts
 * const add = tool({ name: "add", parameters: z.object({ a: z.number(), b: z.number() }), run: ({ a, b }) => a + b });
 * ```
 */
export function tool<T>(options: ToolOptions<T>): Tool {
  const { name, description, parameters, run } = options;
  if (!/^[\w-]{1,64}$/.test(name))
    throw new InvalidInputError("name", `must be 1 to 64 letters, digits, _ or -, got ${JSON.stringify(name)}`);
  const standard = parameters?.["~standard"];
  if (typeof standard?.validate !== "function")
    throw new InvalidInputError("parameters", "must be a standard-schema validator, for example a zod object");
  const schema = options.jsonSchema ?? standard.jsonSchema?.input({ target: "draft-07" });
  if (schema === undefined)
    throw new InvalidInputError("jsonSchema", `is needed: the validator (${standard.vendor}) does not describe itself`);
  return {
    definition: {
      type: "function",
      function: { name, ...(description === undefined ? {} : { description }), parameters: schema },
    },
    async call(args, signal) {
      const wrong = (content: string) => ({ content: JSON.stringify({ error: content }), isError: true });
      let value: unknown;
      try {
        value = JSON.parse(args === "" ? "{}" : args);
      } catch {
        return wrong("the arguments are not JSON");
      }
      const checked = await standard.validate(value);
      if (checked.issues !== undefined)
        return wrong(
          checked.issues.map(({ message, path = [] }) => [...path.map(keyOf), message].join(": ")).join("; "),
        );
      try {
        const result = await run(checked.value, signal);
        return { content: typeof result === "string" ? result : JSON.stringify(result ?? null), isError: false };
      } catch (error) {
        return wrong(error instanceof Error ? error.message : String(error));
      }
    },
  };
}

/** A step of a path is a key, or an object with one. */
const keyOf = (step: unknown): string =>
  String(typeof step === "object" && step !== null && "key" in step ? step.key : step);

/** Runs the calls of a reply in order. A call of an unknown tool is answered with the list of known ones. */
export async function callTools(
  tools: readonly Tool[],
  calls: readonly ToolCall[],
  signal: AbortSignal,
): Promise<readonly (ToolAnswer & { readonly name: string })[]> {
  const answers: (ToolAnswer & { readonly name: string })[] = [];
  for (const { name, arguments: args } of calls) {
    const found = tools.find(({ definition }) => definition.function.name === name);
    const known = tools.map(({ definition }) => definition.function.name).join(", ");
    const missing = {
      content: JSON.stringify({ error: `there is no tool ${name}; there are: ${known}` }),
      isError: true,
    };
    answers.push({ name, ...(found === undefined ? missing : await found.call(args, signal)) });
  }
  return answers;
}
