/** A rejected request: its HTTP status, code and message. Never 409, because the official clients retry that status for minutes. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: 400 | 401 | 403 | 404 | 408 | 410 | 413 | 415 | 422 | 429 | 503 | 507;
  readonly code: string;
  /** Set for 429, 503 and 507. */
  readonly retryAfterSeconds: number | undefined;
  /** The invalid parameter, for APIs that report it in a field of its own. */
  readonly param: string | undefined;

  constructor(
    status: Refusal["status"],
    code: string,
    message: string,
    options: { retryAfterSeconds?: number; param?: string } = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.param = options.param;
  }
}
