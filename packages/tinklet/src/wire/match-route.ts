/** From a method and a path back to the operation: the server's half of the contract table. */
import { apiPrefix, contract, type Operation } from "./contract.ts";

/** The route that a method and a path (prefix included) mean, with its path parameters. For servers. */
export function matchRoute(
  method: string,
  path: string,
): { readonly operation: Operation; readonly params: Readonly<Record<string, string>> } | undefined {
  if (!path.startsWith(`${apiPrefix}/`)) return undefined;
  for (const { operation, method: own, pattern } of patterns) {
    const match = own === method ? pattern.exec(path.slice(apiPrefix.length)) : null;
    if (match !== null) return { operation, params: { ...match.groups } };
  }
  return undefined;
}

// A checkpoint id holds one slash: `weights/<name>`, `sampler_weights/<name>` or `external_weights/<name>`.
const patterns = (Object.keys(contract) as Operation[]).map((operation) => ({
  operation,
  method: contract[operation].method as string,
  pattern: new RegExp(
    `^${contract[operation].path.replace(/\{(\w+)\}/g, (_, name: string) =>
      name === "checkpointId" ? `(?<${name}>(?:weights|sampler_weights|external_weights)/[^/]+)` : `(?<${name}>[^/]+)`,
    )}$`,
  ),
}));
