/** Reading the bodies of chats: every field has a type and a bound, and what is wrong is told by the field's name. */
import { Refusal } from "../../queue/refusal.ts";

export type Body = Readonly<Record<string, unknown>>;

/** A 400 that names the parameter at fault. */
export const badField = (param: string, problem: string, code = "invalid_value"): Refusal =>
  new Refusal(400, code, `${param}: ${problem}`, { param });

/** A parameter that would change the answer, and that this server cannot honour. */
export const unsupported = (param: string, problem: string): Refusal =>
  badField(param, `${problem}; leave it out`, "unsupported_value");

/** @throws {@link Refusal} 400 */
export function objectField(value: unknown, param: string): Body {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Body;
  throw badField(param, "must be an object");
}

export function listField(value: unknown, param: string, most: number): readonly unknown[] {
  if (!Array.isArray(value)) throw badField(param, "must be a list");
  if (value.length > most) throw badField(param, `has ${value.length} entries, and ${most} are taken`);
  return value;
}

export function textField(value: unknown, param: string, longest = Number.POSITIVE_INFINITY): string {
  if (typeof value !== "string") throw badField(param, "must be a text");
  if (value.length > longest) throw badField(param, `is longer than ${longest} characters`);
  return value;
}

export interface NumberBounds {
  readonly least: number;
  readonly most: number;
  readonly integer?: boolean;
}

/** A number, or undefined where it is absent or null. */
export function numberField(
  body: Body,
  param: string,
  { least, most, integer = false }: NumberBounds,
): number | undefined {
  const value = body[param];
  if (value === undefined || value === null) return undefined;
  const fits = typeof value === "number" && value >= least && value <= most && (!integer || Number.isInteger(value));
  if (fits) return value;
  throw badField(param, `must be ${integer ? "a whole number" : "a number"} from ${least} to ${most}`);
}

export function booleanField(body: Body, param: string): boolean {
  const value = body[param];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw badField(param, "must be true or false");
  return value;
}

/** What is known about the fields of a body. */
export interface FieldRules {
  /** Read by the handler. */
  readonly honoured: readonly string[];
  /** Cannot change the answer: accepted and not looked at. */
  readonly bookkeeping: readonly string[];
  /** Would change the answer: accepted only with a value that asks for nothing. */
  readonly neutral: Readonly<Record<string, (value: unknown) => boolean>>;
}

/** @throws {@link Refusal} 400 naming the first field that cannot be honoured, or is not known. */
export function checkFields(body: Body, rules: FieldRules): void {
  const known = new Set([...rules.honoured, ...rules.bookkeeping]);
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined || known.has(name)) continue;
    const isNeutral = Object.hasOwn(rules.neutral, name) ? rules.neutral[name] : undefined;
    const shown = name.slice(0, 100);
    if (isNeutral === undefined) throw badField(shown, "is not a parameter of this endpoint", "unknown_parameter");
    if (!isNeutral(value)) throw unsupported(shown, "this server cannot honour it");
  }
}

/** Stop texts: one, or a list of them. */
export function stopField(value: unknown, param: string, most: number): readonly string[] {
  if (value === undefined || value === null) return [];
  const texts = typeof value === "string" ? [value] : listField(value, param, most);
  return texts.map((text, i) => {
    const name = typeof value === "string" ? param : `${param}[${i}]`;
    const checked = textField(text, name, longestStop);
    if (checked === "") throw badField(name, "an empty text would stop everything");
    if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(checked)) {
      throw badField(name, "holds half a character");
    }
    return checked;
  });
}

/** Characters of one stop text. */
const longestStop = 500;
