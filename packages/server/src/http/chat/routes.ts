/** The routes of the chat endpoints. */
import { decodePathPart } from "@tinklet/wire";
import type { Call } from "../api.ts";

/** The API that a request belongs to; it determines the form of errors. OTLP has one for each of its content types. */
export type Surface = "tinker" | "openai" | "anthropic" | "otlp" | "otlp-json";

export interface ChatRoute {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below each prefix of the surface. A last part such as `{model}` matches the rest of the path. */
  readonly path: string;
  readonly surface: "openai" | "anthropic";
}

/** The paths of each API. OpenAI's has a second one, for tools in which `/v1` cannot be changed. */
export const prefixes = {
  openai: ["/oai/api/v1", "/v1"],
  anthropic: ["/anthropic/api/v1"],
} as const satisfies Record<ChatRoute["surface"], readonly string[]>;

export const chatRoutes = {
  oaiListModels: { method: "GET", path: "/models", surface: "openai" },
  oaiGetModel: { method: "GET", path: "/models/{model}", surface: "openai" },
  oaiCompletions: { method: "POST", path: "/completions", surface: "openai" },
  oaiChatCompletions: { method: "POST", path: "/chat/completions", surface: "openai" },
  oaiCreateResponse: { method: "POST", path: "/responses", surface: "openai" },
  oaiGetResponse: { method: "GET", path: "/responses/{response}", surface: "openai" },
  oaiDeleteResponse: { method: "DELETE", path: "/responses/{response}", surface: "openai" },
  oaiEmbeddings: { method: "POST", path: "/embeddings", surface: "openai" },
  anthropicListModels: { method: "GET", path: "/models", surface: "anthropic" },
  anthropicGetModel: { method: "GET", path: "/models/{model}", surface: "anthropic" },
  anthropicMessages: { method: "POST", path: "/messages", surface: "anthropic" },
  anthropicCountTokens: { method: "POST", path: "/messages/count_tokens", surface: "anthropic" },
} as const satisfies Record<string, ChatRoute>;

export type ChatOperation = keyof typeof chatRoutes;
export type ChatHandler = (call: Call, params: Readonly<Record<string, string>>) => Promise<Response> | Response;
/** A route without a handler does not compile. */
export type ChatHandlers = { readonly [K in ChatOperation]: ChatHandler };

const table = (Object.entries(chatRoutes) as [ChatOperation, ChatRoute][]).flatMap(([operation, route]) =>
  prefixes[route.surface].map((prefix) => ({ operation, method: route.method, path: prefix + route.path })),
);

/** The surface of a path, also if no route matches it. */
export function surfaceOf(path: string): Surface {
  const under = (surface: ChatRoute["surface"]) =>
    prefixes[surface].some((prefix) => path === prefix || path.startsWith(`${prefix}/`));
  return under("openai") ? "openai" : under("anthropic") ? "anthropic" : "tinker";
}

/** The route of a method and a path. */
export function matchChatRoute(
  method: string,
  path: string,
): { readonly operation: ChatOperation; readonly params: Readonly<Record<string, string>> } | undefined {
  for (const route of table) {
    if (route.method !== method) continue;
    if (route.path === path) return { operation: route.operation, params: {} };
    const open = route.path.indexOf("{");
    if (open > 0 && path.length > open && path.startsWith(route.path.slice(0, open))) {
      const name = route.path.slice(open + 1, -1);
      return { operation: route.operation, params: { [name]: decodePathPart(path.slice(open)) } };
    }
  }
  return undefined;
}
