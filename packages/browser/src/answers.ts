/** Responses of a browser server. */
import { stringifyJson } from "@tinklet/wire";

export const bytesAnswer = (body: Uint8Array, contentType: string, status = 200): Response =>
  new Response(body as Uint8Array<ArrayBuffer>, {
    status,
    headers: { "content-type": contentType, "content-length": String(body.byteLength) },
  });

export const jsonAnswer = (body: unknown, status = 200): Response =>
  bytesAnswer(new TextEncoder().encode(stringifyJson(body)), "application/json", status);

export const problem = ({
  status,
  code,
  detail,
}: {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}): Response => jsonAnswer({ detail, code }, status);
