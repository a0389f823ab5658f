/** What cases about newer releases share: how a server says that it does not have something. */
import { notOffered } from "./checks.ts";
import { type Answer, described } from "./http.ts";

/**
 * The answer, where the server has the route and the field at all.
 *
 * @throws {@link NotOffered} for a route that is not there, and for a body that is refused as malformed: servers of 0.25 refuse fields they
 *   do not know.
 */
export function offered(answer: Answer, what: string): Answer {
  if ([404, 405, 422, 501].includes(answer.status)) notOffered(`${what}: ${described(answer)}`);
  return answer;
}
