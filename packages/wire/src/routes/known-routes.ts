/**
 * The routes that this program has loaded: those of training and sampling, and, once one of them is called, the others. Keeps
 * what most programs never call out of a browser's bundle.
 */
import { InvalidInputError } from "../errors.ts";
import type { Operation } from "./contract.ts";
import { coreRoutes } from "./core-routes.ts";
import type { Route } from "./route.ts";

const known: Record<string, Route> = { ...coreRoutes };

/** Whether an operation's route is there already. */
export const isKnown = (operation: string): operation is Operation => Object.hasOwn(known, operation);

/** Loads the route of an operation. @throws {@link InvalidInputError} when there is none of that name. */
export async function loadRoute(operation: string): Promise<void> {
  if (isKnown(operation)) return;
  Object.assign(known, (await import("./rest-routes.ts")).restRoutes);
  if (!isKnown(operation)) throw new InvalidInputError("operation", `${operation} is not one of the service's`);
}

/** The route of an operation that is one of the core's, or loaded. */
export function routeOf(operation: Operation): Route {
  const route = known[operation];
  if (route === undefined) throw new Error(`the route of ${operation} is not loaded`);
  return route;
}
