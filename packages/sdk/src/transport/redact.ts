/**
 * Removes secrets from log messages, error messages and bodies, and telemetry: anything with the form of a key or token, and the values
 * that this client was configured with.
 */

const shapes = [
  /\btml-[A-Za-z0-9_-]{4,}/g,
  // A JWT: three base64url parts, the first two of which begin a JSON object.
  /\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?/g,
];
const mask = "[redacted]";
/** Minimum length of a redacted value; shorter ones could match ordinary words. */
const shortestSecret = 8;

export class Redactor {
  readonly #secrets = new Set<string>();

  /** Adds a value to redact. */
  add(secret: string | undefined): void {
    if (secret !== undefined && secret.length >= shortestSecret) this.#secrets.add(secret);
  }

  /** Redacts the added values only, not everything with the form of a key. */
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

  /** Redacts every string of a JSON-like value, including object keys. */
  value(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.value(item));
    if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.text(key), this.value(item)]));
  }
}
