/** A request that is not accepted: the HTTP status and words for it. Never a 409, which clients retry for minutes. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: 400 | 401 | 403 | 404 | 408 | 410 | 413 | 415 | 422 | 429 | 503 | 507;
  readonly code: string;
  /** For 429, 503 and 507. */
  readonly retryAfterSeconds: number | undefined;
  /** The parameter at fault, for APIs that name it apart. */
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
