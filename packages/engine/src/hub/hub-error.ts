/** What can go wrong between us and the Hugging Face Hub. Messages name the model and the file, never a token or a signed URL. */

import { EngineError } from "../errors.ts";

/** What happened: `not_found`, `unauthorized`, `offline`, `network`, `http_status`, `corrupt_download`, `bad_response`. */
export type HubErrorCode =
  | "not_found"
  | "unauthorized"
  | "offline"
  | "network"
  | "http_status"
  | "corrupt_download"
  | "bad_response";

export class HubError extends EngineError {
  /** HTTP status, where there was an answer. */
  readonly status?: number;

  constructor(code: HubErrorCode, message: string, options: { status?: number; hint?: string; cause?: unknown } = {}) {
    super(code, message, options);
    if (options.status !== undefined) this.status = options.status;
  }
}
