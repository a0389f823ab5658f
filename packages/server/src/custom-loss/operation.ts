/** The allow-list of operations, and the binding of arguments to parameters by position or name. Other operations are rejected. */
import { quoted } from "./argument.ts";
import { CustomLossError } from "./custom-loss-error.ts";
import type { Kit } from "./kit.ts";
import type { Value } from "./values.ts";

export type Run = (kit: Kit, args: readonly Value[]) => Value;

interface Parameter {
  readonly name: string;
  /** Absent for a required parameter. */
  readonly default?: Value;
}

export interface Operation {
  readonly parameters: readonly Parameter[];
  /** The last parameter takes the remaining arguments: `x.view(2, -1)` is the same as `x.view((2, -1))`. */
  readonly variadic: boolean;
  readonly run: Run;
}

/** Other names of parameters that PyTorch accepts. */
const aliases = new Map([
  ["axis", "dim"],
  ["keepdims", "keepdim"],
  ["self", "input"],
]);

/** Operations by name: the full name of a function, or `.name` for a method. */
export class Operations {
  readonly #table = new Map<string, Operation>();

  /**
   * Adds an operation under several names.
   *
   * @param names - separated by spaces; names of methods start with a dot.
   * @param parameters - separated by spaces: `name=json` has a default, `name?` defaults to null, `*name` is variadic.
   */
  add(names: string, parameters: string, run: Run): void {
    const parsed = parameters.split(" ").map((text): Parameter => {
      const [, name, mark, json] = /^\*?(\w+)(\??)(?:=(.+))?$/.exec(text) as unknown as [
        string,
        string,
        string,
        string?,
      ];
      if (mark === "?") return { name, default: null };
      return json === undefined ? { name } : { name, default: JSON.parse(json) as Value };
    });
    const operation = { parameters: parsed, variadic: parameters.includes("*"), run };
    for (const name of names.split(" ")) {
      if (this.#table.has(name)) throw new Error(`the operation ${name} is defined twice`);
      this.#table.set(name, operation);
    }
  }

  /** The operation of a node. @throws {@link CustomLossError} naming an operation that is not in the list. */
  find(op: "call_function" | "call_method", target: string): Operation {
    const found =
      op === "call_function" ? !target.startsWith(".") && this.#table.get(target) : this.#table.get(`.${target}`);
    if (found) return found;
    const type = op === "call_function" ? "function" : "method";
    throw new CustomLossError(`the ${type} ${quoted(target)} is not allowed in a custom loss`);
  }
}

/** The arguments of a call in the order of the parameters, with defaults. */
export function bind(
  { parameters, variadic }: Operation,
  args: readonly Value[],
  kwargs: ReadonlyMap<string, Value>,
): readonly Value[] {
  const last = parameters.length - 1;
  const rest = variadic ? args.slice(last) : [];
  const [only] = rest;
  const bound: (Value | undefined)[] = variadic
    ? [...args.slice(0, last), ...(rest.length === 0 ? [] : [rest.length === 1 && Array.isArray(only) ? only : rest])]
    : [...args];
  if (bound.length > parameters.length) {
    throw new CustomLossError(`it takes at most ${parameters.length} arguments, got ${bound.length}`);
  }
  for (const [key, value] of kwargs) {
    const name = aliases.get(key) ?? key;
    const at = parameters.findIndex((parameter) => parameter.name === name);
    if (at === -1) throw new CustomLossError(`the argument ${quoted(key)} is not supported`);
    if (bound[at] !== undefined) throw new CustomLossError(`the argument ${JSON.stringify(key)} is given twice`);
    bound[at] = value;
  }
  return parameters.map((parameter, i) => {
    const value = bound[i] ?? parameter.default;
    if (value === undefined) throw new CustomLossError(`the argument ${JSON.stringify(parameter.name)} is missing`);
    return value;
  });
}
