/**
 * Sampler handles as strings, in the official SDK's format, so that programs of both SDKs can share samplers. A handle contains the
 * server's URL and configuration and no credential. Loaded when a handle is written or read.
 */

import { ClientConfigResponse, decodeBase64, encodeBase64 } from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import { isPlainObject } from "@tinklet/wire/options";
import { withoutSecrets } from "../../transport/http-transport.ts";
import type { ClientOptions } from "../options.ts";
import { Session, type SessionHandle } from "../session/session.ts";
import { SamplingClient } from "./sampling-client.ts";

/** Fields of a handle besides the session. */
interface SamplerParts {
  readonly samplingSessionId: string;
  readonly recordStabilityInfo: boolean;
}

export function writeHandle({ baseUrl, headers = {}, sessionId, config }: SessionHandle, parts: SamplerParts): string {
  const state = {
    session_id: sessionId,
    sampling_session_id: parts.samplingSessionId,
    holder: {
      base_url: baseUrl,
      default_headers_overrides: withoutSecrets(headers),
      client_config: ClientConfigResponse.encode(config),
      client_dynamic_config: {},
      api_key: null,
    },
    record_stability_info: parts.recordStabilityInfo,
  };
  const base64 = encodeBase64(new TextEncoder().encode(JSON.stringify(state)));
  return base64.replaceAll("+", "-").replaceAll("/", "_");
}

/** @throws {@link InvalidInputError} when the string is not a handle. */
export function clientOfHandle(handle: string, options: ClientOptions): SamplingClient {
  const { session_id: sessionId, sampling_session_id: id, holder, record_stability_info: records } = stateOf(handle);
  const {
    base_url: baseUrl,
    default_headers_overrides: headers,
    client_config: config,
  } = isPlainObject(holder) ? holder : {};
  if (typeof sessionId !== "string" || typeof id !== "string" || typeof baseUrl !== "string") throw noHandle();
  const from = {
    baseUrl,
    headers: textsOf(headers),
    apiKey: options.apiKey,
    token: undefined,
    sessionId,
    config: ClientConfigResponse.decode(config),
  };
  return new SamplingClient(new Session(options, from), id, { foreign: true, recordStabilityInfo: records === true });
}

/** The headers of a handle; values that are not strings are skipped. */
function textsOf(headers: unknown): Record<string, string> {
  const entries = isPlainObject(headers) ? Object.entries(headers) : [];
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}

function stateOf(handle: string): Readonly<Record<string, unknown>> {
  try {
    const bytes = decodeBase64(handle.replaceAll("-", "+").replaceAll("_", "/"));
    const state: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (isPlainObject(state)) return state;
  } catch {
    // not valid JSON or base64: not a handle
  }
  throw noHandle();
}

const noHandle = () => new InvalidInputError("handle", "is not a sampler handle");
