/** Reads fields of chat bodies. Each field has a type and a limit; an error names the field, the value and the limit. */
import { Refusal } from "../../queue/refusal.ts";

export type Body = Readonly<Record<string, unknown>>;

/** A 400 that names the invalid parameter. */
export const badField = (param: string, problem: string, code = "invalid_value"): Refusal =>
  new Refusal(400, code, `${param}: ${problem}`, { param });

/** A 400 for a valid parameter that would change the response and that this server does not support. */
export const unsupported = (param: string, problem: string): Refusal =>
  badField(param, `${problem}; leave it out`, "unsupported_value");

/** A value as error messages show it; the size of the text is bounded, and so is the work. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array" : "an object";
}

/** @throws {@link Refusal} 400 */
export function objectField(value: unknown, param: string): Body {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Body;
  throw badField(param, `must be an object, got ${shown(value)}`);
}

export function listField(value: unknown, param: string, most: number): readonly unknown[] {
  if (!Array.isArray(value)) throw badField(param, `must be an array, got ${shown(value)}`);
  if (value.length > most) throw badField(param, `must have at most ${most} entries, got ${value.length}`);
  return value;
}

export function textField(value: unknown, param: string, longest = Number.POSITIVE_INFINITY): string {
  if (typeof value !== "string") throw badField(param, `must be a string, got ${shown(value)}`);
  if (value.length > longest) {
    throw badField(param, `must have at most ${longest} characters, got ${value.length}`);
  }
  return value;
}

export interface NumberBounds {
  readonly least: number;
  readonly most: number;
  readonly integer?: boolean;
}

/** The number of a field; `undefined` if it is absent or null. */
export function numberField(
  body: Body,
  param: string,
  { least, most, integer = false }: NumberBounds,
): number | undefined {
  const value = body[param];
  if (value === undefined || value === null) return undefined;
  const fits = typeof value === "number" && value >= least && value <= most && (!integer || Number.isInteger(value));
  if (fits) return value;
  throw badField(param, `must be ${integer ? "an integer" : "a number"} from ${least} to ${most}, got ${shown(value)}`);
}

export function booleanField(body: Body, param: string): boolean {
  const value = body[param];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw badField(param, `must be true or false, got ${shown(value)}`);
  return value;
}

/** The known fields of a body. */
export interface FieldRules {
  /** Read by the handler. */
  readonly supported: readonly string[];
  /** Cannot change the response: accepted and not read. */
  readonly ignored: readonly string[];
  /** Not supported: accepted only if the predicate holds, which means that the value has no effect. */
  readonly neutral: Readonly<Record<string, (value: unknown) => boolean>>;
}

/** @throws {@link Refusal} 400 naming the first field that is unknown or not supported. */
export function checkFields(body: Body, rules: FieldRules): void {
  const accepted = new Set([...rules.supported, ...rules.ignored]);
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined || accepted.has(name)) continue;
    const isNeutral = Object.hasOwn(rules.neutral, name) ? rules.neutral[name] : undefined;
    const param = name.slice(0, 100);
    if (isNeutral === undefined) throw badField(param, "is not a parameter of this endpoint", "unknown_parameter");
    if (!isNeutral(value)) throw unsupported(param, `${shown(value)} is not supported`);
  }
}

/** Stop strings: one, or an array. */
export function stopField(value: unknown, param: string, most: number): readonly string[] {
  if (value === undefined || value === null) return [];
  const texts = typeof value === "string" ? [value] : listField(value, param, most);
  return texts.map((text, i) => {
    const name = typeof value === "string" ? param : `${param}[${i}]`;
    const checked = textField(text, name, longestStop);
    if (checked === "") throw badField(name, "must not be empty");
    if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(checked)) {
      throw badField(name, "must not have a lone surrogate");
    }
    return checked;
  });
}

/** Characters of one stop string. */
const longestStop = 500;
