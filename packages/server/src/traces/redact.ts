/**
 * Replaces secrets and e-mail addresses in text. Every repetition is bounded and none is beside one that matches the same characters, so
 * that the time is linear in the text. Runs in the side thread.
 */

const patterns: readonly (readonly [name: string, pattern: RegExp])[] = [
  ["PRIVATE_KEY", /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]{0,8000}?-----END [A-Z ]{0,40}PRIVATE KEY-----/g],
  ["SECRET", /\b(?:sk|pk|rk|tml|xox[abprs]|glpat|hf|npm)[-_][A-Za-z0-9_-]{12,400}/g],
  ["SECRET", /\bgh[pousr]_[A-Za-z0-9]{20,300}/g],
  ["SECRET", /\bgithub_pat_[A-Za-z0-9_]{20,300}/g],
  ["SECRET", /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g],
  ["SECRET", /\bAIza[A-Za-z0-9_-]{30,60}/g],
  ["TOKEN", /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}/g],
  ["TOKEN", /\b[Bb]earer [A-Za-z0-9._~+/=-]{16,4000}/g],
  // The value after a name that says so: password=…, "api_key": "…".
  [
    "SECRET",
    /(?<=\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret)["']? ?[:=] ?["']?)[^\s"',;&}\\]{6,400}/gi,
  ],
  ["PASSWORD", /(?<=\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@]{1,100}:)[^\s:/@]{1,200}(?=@)/gi],
  ["EMAIL", /\b[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b/g],
];

/** The text with each secret replaced by its kind in brackets, for example `[EMAIL]`. */
export function redactText(text: string): string {
  let clean = text;
  for (const [name, pattern] of patterns) clean = clean.replace(pattern, `[${name}]`);
  return clean;
}

/** Redacts every string of a JSON value, not its keys. */
export function redactJson<T>(value: T): T {
  if (typeof value === "string") return redactText(value) as T;
  if (Array.isArray(value)) return value.map((one: unknown) => redactJson(one)) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, redactJson(one as unknown)])) as T;
}
