/**
 * The routes beside the contract table: those that clients newer than 0.25 call, and our own, under `/tinklet/`. A route without a
 * handler does not compile, and neither does one without a case in the test of tenants.
 */
import type { Limits } from "../limits.ts";
import type { Call } from "./api.ts";

interface NewerRoute {
  readonly method: "GET" | "POST";
  /** Under `/api/v1`; a group is a parameter. */
  readonly path: string;
  /** The bound on its body, where it is not that of every other route. */
  readonly bodyLimit?: keyof Limits;
}

export const newerRoutes = {
  finishSession: { method: "POST", path: "/sessions/([^/]+)/finish" },
  searchSessions: { method: "POST", path: "/sessions/search" },
  joinSamplingSession: { method: "POST", path: "/join_sampling_session" },
  cancelFuture: { method: "POST", path: "/cancel_future" },
  copyWeights: { method: "POST", path: "/copy_weights" },
  saveWeightsExternal: { method: "POST", path: "/save_weights_external" },
  getExternalWeightsUrls: {
    method: "GET",
    path: "/training_runs/([^/]+)/checkpoints/external_weights/([^/]+)/external_weights_urls",
  },
  getCurrentCheckpointStorageUsage: { method: "GET", path: "/billing/usage/checkpoints/current" },
  apiKeyMe: { method: "GET", path: "/auth/apikey/me" },
  sampleTokens: { method: "GET", path: "/tinklet/samples/([^/]+)/tokens" },
  importAdapter: { method: "POST", path: "/tinklet/import_adapter", bodyLimit: "adapterBytes" },
} as const satisfies Record<string, NewerRoute>;

export type NewerOperation = keyof typeof newerRoutes;
export type NewerHandler = (call: Call, match: RegExpExecArray) => Promise<Response> | Response;
export type NewerHandlers = { readonly [K in NewerOperation]: NewerHandler };

const compiled = Object.entries(newerRoutes as Record<string, NewerRoute>).map(([operation, route]) => ({
  ...route,
  operation: operation as NewerOperation,
  pattern: new RegExp(`^/api/v1${route.path}$`),
}));

export interface NewerMatch {
  readonly operation: NewerOperation;
  readonly match: RegExpExecArray;
  readonly bodyLimit: keyof Limits | undefined;
}

export function matchNewerRoute(method: string, path: string): NewerMatch | undefined {
  for (const { operation, pattern, bodyLimit, ...route } of compiled) {
    const match = route.method === method ? pattern.exec(path) : null;
    if (match !== null) return { operation, match, bodyLimit };
  }
  return undefined;
}
