/**
 * The routes that this program has loaded: those of training and sampling, and the others after the first call of one of them. This
 * keeps rarely used routes out of the initial bundle of a browser.
 */
import { InvalidInputError } from "../errors.ts";
import type { Operation } from "./contract.ts";
import { coreRoutes } from "./core-routes.ts";
import type { Route } from "./route.ts";

const known: Record<string, Route> = { ...coreRoutes };

/** Whether the route of an operation is loaded. */
export const isKnown = (operation: string): operation is Operation => Object.hasOwn(known, operation);

/** Loads the route of an operation. @throws {@link InvalidInputError} for an unknown operation. */
export async function loadRoute(operation: string): Promise<void> {
  if (isKnown(operation)) return;
  Object.assign(known, (await import("./rest-routes.ts")).restRoutes);
  if (!isKnown(operation)) throw new InvalidInputError("operation", `${operation} is not an operation of the service`);
}

/** The route of an operation that is loaded. */
export function routeOf(operation: Operation): Route {
  const route = known[operation];
  if (route === undefined) throw new Error(`the route of ${operation} is not loaded`);
  return route;
}
