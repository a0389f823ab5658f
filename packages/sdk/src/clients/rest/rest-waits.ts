/** Archives and traces, which the server may have to prepare first. Loaded on first use. */

import { type CheckpointArchiveUrlResponse, loadRoute, type TraceExportResponse } from "@tinklet/wire/client";
import { ResponseValidationError, TinkerError } from "@tinklet/wire/errors";
import type { HttpResponse } from "../../transport/exchange.ts";
import type { CallOptions } from "../../transport/transport.ts";
import type { Session } from "../session/session.ts";

/** Delay and number of retries while the server packs an archive. */
const archiveRetryMs = 30_000;
const archiveAttempts = 6;
/** Assumed lifetime of a link if the server does not report its expiry. */
const archiveLifeMs = 15 * 60_000;
const tracePollMs = 5_000;

/** The URL of a checkpoint's archive; waits while the server packs it. */
export async function archiveUrl(
  session: Session,
  checkpoint: { readonly trainingRunId: string; readonly checkpointId: string },
  options: CallOptions,
): Promise<CheckpointArchiveUrlResponse> {
  await session.connect(options);
  const { transport, clock, reporter } = session;
  const facts = { path: checkpoint.checkpointId };
  await loadRoute("getCheckpointArchiveUrl");
  const request = transport.prepare("getCheckpointArchiveUrl", checkpoint);
  // The redirect is the result. 503 means "being packed", which takes longer than the usual retries.
  const accept = ({ status }: HttpResponse) => status === 302 || status === 503;
  for (let attempt = 1; ; attempt++) {
    const response = await transport.send(request, { ...options, accept, facts });
    if (!accept(response)) return transport.decode("getCheckpointArchiveUrl", response);
    const url = response.header("location");
    if (response.status === 302 && url !== undefined) {
      return { url, expires: httpDate(response.header("expires")) ?? new Date(clock.now() + archiveLifeMs) };
    }
    if (response.status === 302 || attempt === archiveAttempts) throw transport.failure(request, response, facts);
    reporter.logSometimes("warn", `archive ${facts.path}`, `The archive of ${facts.path} is being packed; waiting.`);
    await transport.sleep(archiveRetryMs, options.signal);
  }
}

/** The URL of a session's trace; waits until the export is complete. @param ask - requests the export's status */
export async function traceUrl(
  session: Session,
  sessionId: string,
  ask: () => Promise<TraceExportResponse>,
  signal: AbortSignal | undefined,
): Promise<string> {
  for (;;) {
    const { status, url, error } = await ask();
    if (status === "failed") {
      throw new TinkerError(`The trace of session ${sessionId} could not be exported: ${error ?? "no reason given"}`, {
        code: "trace_export_failed",
      });
    }
    if (status === "ready") {
      if (url === undefined) throw new ResponseValidationError("url", "is missing although the trace is ready");
      return url;
    }
    await session.transport.sleep(tracePollMs, signal);
  }
}

function httpDate(text = ""): Date | undefined {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : new Date(ms);
}
