/** Errors of requests to the Hugging Face Hub. Messages name the model and the file, never a token or a signed URL. */

import { ModelError } from "../errors.ts";

/** Codes of {@link HubError}. */
export type HubErrorCode =
  | "not_found"
  | "unauthorized"
  | "offline"
  | "network"
  | "http_status"
  | "corrupt_download"
  | "bad_response";

export class HubError extends ModelError {
  override name = "HubError";
  declare readonly code: HubErrorCode;
  /** HTTP status, if there was a response. */
  readonly status?: number;
  /** The message without the hint. */
  readonly #what: string;

  constructor(code: HubErrorCode, message: string, options: { status?: number; hint?: string; cause?: unknown } = {}) {
    super(code, message, options);
    this.#what = message;
    if (options.status !== undefined) this.status = options.status;
  }

  /** The same error with a prefix that says why the Hub was used: a mistyped path looks like a Hub id. */
  about(reason: string): HubError {
    return new HubError(this.code, `${reason}, and ${this.#what}`, {
      ...(this.status !== undefined && { status: this.status }),
      ...(this.hint !== undefined && { hint: this.hint }),
      cause: this,
    });
  }
}
