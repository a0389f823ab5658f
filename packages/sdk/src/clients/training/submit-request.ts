/**
 * Sends one numbered request of a model. Has no signal, because a submission that has started must complete.
 */

import { compressZstd, type Operation } from "@tinklet/wire/client";
import type { FailureFacts } from "../../transport/hints.ts";
import type { PreparedRequest } from "../../transport/transport.ts";
import type { Session } from "../session/session.ts";

/** A request that the server has acknowledged. */
export interface Accepted {
  readonly requestId: string;
  /** Duration of the submission, in milliseconds. */
  readonly roundtripMs: number;
}

export interface SubmitOptions {
  readonly facts?: Partial<FailureFacts>;
  readonly maxRetries?: number;
}

export async function submitRequest(
  { transport, clock, config }: Session,
  request: PreparedRequest,
  options: SubmitOptions,
): Promise<Accepted> {
  const startedAtMs = clock.monotonic();
  let prepared = request;
  if (request.operation === "forwardBackward" && config.protoCompressFwdbwd) {
    const headers = { ...request.headers, "content-encoding": "zstd" };
    prepared = { ...request, headers, body: await compressZstd(request.body as Uint8Array) };
  }
  const response = await transport.send(prepared, { ...options, startedAtMs });
  // every numbered request is acknowledged like a pass; the cast selects that decoder
  const { requestId } = transport.decode(request.operation as Operation & "forwardBackward", response);
  return { requestId, roundtripMs: clock.monotonic() - startedAtMs };
}
