/**
 * `POST /v1/traces`: OpenTelemetry's trace exports (OTLP/HTTP) as protobuf or JSON. Responses and errors have the form of the request, as
 * the protocol requires; spans that are rejected are reported as a partial success.
 */
import { protobufContentType } from "@tinklet/wire";
import { encodeTraceResponse } from "@tinklet/wire/otlp";
import { Refusal } from "../../queue/refusal.ts";
import { addSpans } from "../../store/tables/traces.ts";
import { chatCredential } from "../access/auth.ts";
import { checkOrigin } from "../access/hosts.ts";
import { bytesAnswer, jsonAnswer } from "../answers.ts";
import type { Api, Call } from "../api.ts";
import type { KeyRoute } from "../route-table.ts";

/** The path of exporters that are configured with the address of the server only. */
export const tracesPath = "/v1/traces";

const typeOf = (request: Request): string =>
  (request.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();

/** Whether the request, and so its response, is protobuf. */
export const isProtobuf = (request: Request): boolean => typeOf(request) === protobufContentType;

function checkType(request: Request): void {
  const type = typeOf(request);
  if (type === protobufContentType || type === "application/json") return;
  const problem = `Content-Type: must be ${protobufContentType} or application/json, got ${type.slice(0, 100) || "none"}.`;
  throw new Refusal(415, "unknown_content_type", problem);
}

export function traceIngestRoute(api: Api): (method: string, path: string) => KeyRoute | undefined {
  const { limits } = api;
  const route: KeyRoute = {
    label: "exportTraces",
    access: "key",
    credential: chatCredential,
    acceptsCookie: false,
    // Without configured keys all callers are one tenant, and an exporter needs nothing but the server's address. A page of another
    // origin cannot send these content types.
    keyIsOptional: true,
    checkOrigin,
    bounds: { bodyBytes: limits.traceBytes, decompressedBytes: limits.traceDecompressedBytes },
    checkHeaders: checkType,
    isJson: () => false, // parsed in the side thread
    answer: (call) => ingest(api, call),
  };
  return (method, path) => (method === "POST" && path === tracesPath ? route : undefined);
}

async function ingest(api: Api, { caller, request, bytes }: Call): Promise<Response> {
  const { limits, store, clock } = api;
  const { tenant } = caller;
  api.queue.checkDisk(tenant, bytes.byteLength);
  const isBinary = isProtobuf(request);
  const read = await api.traceThreads.readExport(tenant, {
    bytes,
    isJson: !isBinary,
    bounds: {
      parts: limits.traceParts,
      spans: limits.traceSpans,
      attributes: limits.traceAttributes,
      depth: limits.traceDepth,
      textLength: limits.traceTextLength,
      spanBytes: limits.traceSpanBytes,
      // A value takes at most four levels of JSON, and is below ten of the export. Values that are a few levels too deep are rejected with
      // their span; only deeper ones are refused with the whole export.
      jsonDepth: 16 + 4 * (limits.traceDepth + 4),
    },
  });
  const added = { stored: 0, rejected: 0, deletedTraces: 0 };
  for (let at = 0; at < read.spans.length; at += spansPerWrite) {
    const one = await store.db.write((sql) =>
      addSpans(sql, read.spans.slice(at, at + spansPerWrite), {
        tenant,
        now: clock.now(),
        perTrace: limits.spansPerTrace,
        perTenant: limits.spansPerTenant,
      }),
    );
    added.stored += one.stored;
    added.rejected += one.rejected;
    added.deletedTraces += one.deletedTraces;
  }
  if (added.deletedTraces > 0)
    api.log.info("traces.deleted", { tenant, count: added.deletedTraces, reason: "the tenant's limit was reached" });
  await store.db.synced();
  const { count: bounds } = limits.spansPerTrace;
  const reason = read.rejected.reason ?? `a trace has at most ${bounds} spans of ${limits.spansPerTrace.bytes} bytes`;
  const rejectedSpans = read.rejected.count + added.rejected;
  const partialSuccess = rejectedSpans === 0 ? undefined : { rejectedSpans, errorMessage: reason.slice(0, 1000) };
  if (isBinary) return bytesAnswer(encodeTraceResponse({ partialSuccess }), protobufContentType);
  return jsonAnswer(partialSuccess === undefined ? {} : { partialSuccess });
}

/** Rows of one transaction; other writers run between two. */
const spansPerWrite = 500;
