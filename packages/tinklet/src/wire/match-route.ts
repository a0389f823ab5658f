/** From a method and a path back to the operation: the server's half of the contract table. */
import { apiPrefix, contract, type Operation } from "./contract.ts";

/** The route that a path means. */
export interface RouteMatch {
  readonly operation: Operation;
  readonly params: Readonly<Record<string, string>>;
}

/** The route that a method and a path (prefix included) mean, with its path parameters as they stand there. For servers. */
export function matchRoute(method: string, path: string): RouteMatch | undefined {
  if (!path.startsWith(`${apiPrefix}/`)) return undefined;
  const rest = path.slice(apiPrefix.length);
  const plain = plainRoutes.get(`${method} ${rest}`);
  if (plain !== undefined) return { operation: plain, params: {} };
  for (const { operation, method: own, pattern } of patterns) {
    const match = own === method ? pattern.exec(rest) : null;
    if (match !== null) return { operation, params: { ...match.groups } };
  }
  return undefined;
}

const operations = Object.keys(contract) as Operation[];
const isPlain = (operation: Operation) => !contract[operation].path.includes("{");

const plainRoutes = new Map(
  operations
    .filter(isPlain)
    .map((operation) => [`${contract[operation].method} ${contract[operation].path}`, operation]),
);

// A checkpoint id holds one slash: its kind and its name.
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
