/** Detects whether a server offers a feature of a newer release. */
import { notOffered } from "./checks.ts";
import { type Answer, described } from "./http.ts";

/**
 * Returns the response if the server has the route and the field.
 *
 * @throws {@link NotOffered} for a missing route, and for a body that is rejected as malformed, since servers of 0.25 reject unknown fields.
 */
export function offered(answer: Answer, label: string): Answer {
  if ([404, 405, 422, 501].includes(answer.status)) notOffered(`${label}: ${described(answer)}`);
  return answer;
}
