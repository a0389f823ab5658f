/**
 * Distinguishes a server that is too old for a request from one that refuses it, by the contract's release numbers for routes and fields
 * and by how servers respond to unknown ones.
 */

import { fieldsSince, type Operation, routeOf } from "@tinklet/wire/client";
import { type APIStatusError, UnsupportedFeatureError } from "@tinklet/wire/errors";
import { isPlainObject } from "@tinklet/wire/options";

/** The feature that the server lacks, if that is the reason for the error; else undefined. */
export function unsupported(error: APIStatusError, operation: Operation): UnsupportedFeatureError | undefined {
  const { status } = error;
  const detail = isPlainObject(error.body) ? error.body["detail"] : error.body;
  const { since, path } = routeOf(operation);
  // An existing route names the object that it did not find; for an unknown route the web framework responds without details.
  const bare = detail === undefined || detail === "" || detail === "Not Found" || detail === "Method Not Allowed";
  if (since !== undefined && bare && [404, 405, 501].includes(status)) {
    return new UnsupportedFeatureError(path, since, { cause: error });
  }
  if ((status !== 422 && status !== 400) || !Array.isArray(detail)) return undefined;
  for (const problem of detail as unknown[]) {
    if (!isPlainObject(problem) || problem["type"] !== "extra_forbidden" || !Array.isArray(problem["loc"])) continue;
    const field = String(problem["loc"].at(-1));
    if (Object.hasOwn(fieldsSince, field)) {
      return new UnsupportedFeatureError(field, fieldsSince[field]!, { cause: error });
    }
  }
  return undefined;
}
