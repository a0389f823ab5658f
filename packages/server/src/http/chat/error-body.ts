/** Error bodies in the form of each API, from which its official clients choose their error class. `detail` is the Tinker API's field. */
import type { Problem } from "../answers.ts";
import type { Surface } from "./routes.ts";

const openaiTypes: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
  500: "server_error",
  503: "server_error",
  507: "server_error",
};

const anthropicTypes: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error",
  507: "api_error",
};

/** Codes of `google.rpc.Status`, which OTLP's errors have. */
const rpcCodes: Readonly<Record<number, number>> = {
  400: 3,
  401: 16,
  403: 7,
  404: 5,
  408: 4,
  413: 8,
  415: 3,
  422: 3,
  429: 8,
  500: 13,
  503: 14,
  507: 8,
};
const rpcUnknown = 2;

/** The body of an error, as an object; `otlp` sends it as protobuf. */
export function errorBody(surface: Surface, { status, code, detail, param, details }: Problem): object {
  switch (surface) {
    case "tinker":
      return { detail, code };
    case "openai": {
      const type = openaiTypes[status] ?? "invalid_request_error";
      return { error: { message: detail, type, param: param ?? null, code }, detail };
    }
    case "anthropic":
      return {
        type: "error",
        error: {
          type: anthropicTypes[status] ?? "invalid_request_error",
          message: detail,
          ...(details === undefined ? {} : { details }),
        },
        detail,
        code,
      };
    case "otlp":
    case "otlp-json":
      return { code: rpcCodes[status] ?? rpcUnknown, message: detail };
    default:
      return surface satisfies never;
  }
}
