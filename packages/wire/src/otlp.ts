/**
 * `@tinklet/wire/otlp`: the binary form of OpenTelemetry's trace protocol (OTLP/HTTP), as far as it is read or written here. In an entry
 * of its own, because clients do not need it.
 */
import { encodeMessage, Reader, WireFormatError } from "./proto/binary.ts";
import {
  readTraceRequest,
  type Status,
  sizeStatus,
  sizeTraceRequest,
  sizeTraceResponse,
  type TraceRequest,
  type TraceResponse,
  writeStatus,
  writeTraceRequest,
  writeTraceResponse,
} from "./proto/gen/otlp.ts";

export { WireFormatError } from "./proto/binary.ts";
export type {
  AnyValue,
  KeyValue,
  ResourceSpans,
  Span,
  SpanEvent,
  TraceRequest,
  TraceResponse,
} from "./proto/gen/otlp.ts";

/** A reader that refuses to build more than a number of nested messages: two bytes of a request can make an object. */
class BoundedReader extends Reader {
  #left: number;
  readonly #most: number;

  constructor(bytes: Uint8Array, most: number) {
    super(bytes);
    this.#left = most;
    this.#most = most;
  }

  override nested<T>(body: (reader: Reader) => T): T {
    if (--this.#left < 0) throw new TooManyParts(this.#most);
    return super.nested(body);
  }
}

/** The request has more nested messages than allowed. */
export class TooManyParts extends WireFormatError {
  constructor(most: number) {
    super(`more than ${most} values`);
  }
}

/** @param options.maxParts - number of nested messages that may be built. @throws {@link WireFormatError} */
export const decodeTraceRequest = (bytes: Uint8Array, { maxParts }: { readonly maxParts: number }): TraceRequest =>
  readTraceRequest(new BoundedReader(bytes, maxParts));

export const encodeTraceRequest = (request: TraceRequest): Uint8Array =>
  encodeMessage(request, sizeTraceRequest, writeTraceRequest);

export const encodeTraceResponse = (response: TraceResponse): Uint8Array =>
  encodeMessage(response, sizeTraceResponse, writeTraceResponse);

/** The body of an error: a `google.rpc.Status`. */
export const encodeStatus = (status: Status): Uint8Array => encodeMessage(status, sizeStatus, writeStatus);
