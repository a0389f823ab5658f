/**
 * What an operation of the allow-list is, and how its arguments are bound: by position or by name, each known, none twice.
 * Nothing outside the list has a meaning here.
 */
import { quoted } from "./argument.ts";
import { CustomLossError } from "./custom-loss-error.ts";
import type { Kit } from "./kit.ts";
import type { Value } from "./values.ts";

export type Run = (kit: Kit, args: readonly Value[]) => Value;

interface Parameter {
  readonly name: string;
  /** Absent for one that must be given. */
  readonly default?: Value;
}

export interface Operation {
  readonly parameters: readonly Parameter[];
  /** The last parameter takes all that is left: `x.view(2, -1)` as well as `x.view((2, -1))`. */
  readonly variadic: boolean;
  readonly run: Run;
}

/** Other names of parameters that PyTorch takes. */
const aliases = new Map([
  ["axis", "dim"],
  ["keepdims", "keepdim"],
  ["self", "input"],
]);

/** The allow-list: functions by their full name, methods by `.name`. */
export class Operations {
  readonly #table = new Map<string, Operation>();

  /**
   * Adds an operation under several names.
   *
   * @param names - apart by spaces; a method's begins with a dot.
   * @param parameters - apart by spaces; `name=json` has a default, `name?` is null when it is not given, `*name` is variadic.
   */
  add(names: string, parameters: string, run: Run): void {
    const parsed = parameters.split(" ").map((text): Parameter => {
      const [, name, mark, given] = /^\*?(\w+)(\??)(?:=(.+))?$/.exec(text) as unknown as [
        string,
        string,
        string,
        string?,
      ];
      if (mark === "?") return { name, default: null };
      return given === undefined ? { name } : { name, default: JSON.parse(given) as Value };
    });
    const operation = { parameters: parsed, variadic: parameters.includes("*"), run };
    for (const name of names.split(" ")) {
      if (this.#table.has(name)) throw new Error(`${name} stands in the list twice`);
      this.#table.set(name, operation);
    }
  }

  /** The operation of a node. @throws {@link CustomLossError} naming what is not allowed. */
  find(op: "call_function" | "call_method", target: string): Operation {
    const found =
      op === "call_function" ? !target.startsWith(".") && this.#table.get(target) : this.#table.get(`.${target}`);
    if (found) return found;
    const what = op === "call_function" ? "function" : "method";
    throw new CustomLossError(`the ${what} ${quoted(target)} is not allowed in a custom loss`);
  }

  /** Every name of the list, for its page. */
  names(): string[] {
    return [...this.#table.keys()].sort();
  }
}

/** The arguments of a call in the order of the parameters. */
export function bind(
  { parameters, variadic }: Operation,
  args: readonly Value[],
  kwargs: ReadonlyMap<string, Value>,
): readonly Value[] {
  const last = parameters.length - 1;
  const rest = variadic ? args.slice(last) : [];
  const [only] = rest;
  const given: (Value | undefined)[] = variadic
    ? [...args.slice(0, last), ...(rest.length === 0 ? [] : [rest.length === 1 && Array.isArray(only) ? only : rest])]
    : [...args];
  if (given.length > parameters.length) {
    throw new CustomLossError(`it takes ${parameters.length} arguments, not ${given.length}`);
  }
  for (const [key, value] of kwargs) {
    const name = aliases.get(key) ?? key;
    const at = parameters.findIndex((parameter) => parameter.name === name);
    if (at === -1) throw new CustomLossError(`it has no argument ${quoted(key)} here`);
    if (given[at] !== undefined) throw new CustomLossError(`its argument ${JSON.stringify(key)} is given twice`);
    given[at] = value;
  }
  return parameters.map((parameter, i) => {
    const value = given[i] ?? parameter.default;
    if (value === undefined) throw new CustomLossError(`its argument ${JSON.stringify(parameter.name)} is missing`);
    return value;
  });
}
