/** Matches a method and a path to an operation, for servers. */
import { contract, type Operation } from "./contract.ts";
import { apiPrefix } from "./route.ts";

/** A matched route. */
export interface RouteMatch {
  readonly operation: Operation;
  readonly params: Readonly<Record<string, string>>;
}

/** The operation of a method and a path (including the prefix), with the decoded path parameters. */
export function matchRoute(method: string, path: string): RouteMatch | undefined {
  if (!path.startsWith(`${apiPrefix}/`)) return undefined;
  const rest = path.slice(apiPrefix.length);
  const plain = plainRoutes.get(`${method} ${rest}`);
  if (plain !== undefined) return { operation: plain, params: {} };
  for (const { operation, method: own, pattern } of patterns) {
    const match = own === method ? pattern.exec(rest) : null;
    if (match === null) continue;
    const params = Object.entries(match.groups ?? {}).map(([name, text]) => [name, decodePathPart(text)] as const);
    return { operation, params: Object.fromEntries(params) };
  }
  return undefined;
}

/** Decodes a part of a path. A part with invalid escapes is returned unchanged; the lookup of that name then fails. */
export function decodePathPart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const operations = Object.keys(contract) as Operation[];
const isPlain = (operation: Operation) => !contract[operation].path.includes("{");

const plainRoutes = new Map(
  operations
    .filter(isPlain)
    .map((operation) => [`${contract[operation].method} ${contract[operation].path}`, operation]),
);

// A checkpoint id contains one slash, between its kind and its name.
const patterns = operations
  .filter((operation) => !isPlain(operation))
  .map((operation) => ({
    operation,
    method: contract[operation].method as string,
    pattern: new RegExp(
      `^${contract[operation].path.replace(/\{(\w+)\}/g, (_, name: string) =>
        name === "checkpointId"
          ? `(?<${name}>(?:weights|sampler_weights|external_weights)/[^/]+)`
          : `(?<${name}>[^/]+)`,
      )}$`,
    ),
  }));
