/**
 * Keeps secrets out of everything that people or servers read: log lines, error messages and bodies, telemetry. Knows the
 * shapes of keys and tokens, and the very values that this client was given.
 */

const shapes = [
  /\btml-[A-Za-z0-9_-]{4,}/g,
  // A JWT: three base64url parts, the first two of which begin a JSON object.
  /\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?/g,
];
const mask = "[redacted]";
/** Shorter values would blank out ordinary words. */
const shortestSecret = 8;

export class Redactor {
  readonly #secrets = new Set<string>();

  /** Remembers a value that must never be shown. */
  add(secret: string | undefined): void {
    if (secret !== undefined && secret.length >= shortestSecret) this.#secrets.add(secret);
  }

  /** A text without the values that were added; what only has the shape of a key stays. */
  known(text: string): string {
    let clean = text;
    for (const secret of this.#secrets) if (clean.includes(secret)) clean = clean.replaceAll(secret, mask);
    return clean;
  }

  text(text: string): string {
    let clean = this.known(text);
    for (const shape of shapes) clean = clean.replace(shape, mask);
    return clean;
  }

  /** A JSON-like value with every text in it cleaned, keys included. */
  value(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.value(item));
    if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.text(key), this.value(item)]));
  }
}
