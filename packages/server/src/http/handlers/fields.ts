/** Fields of bodies that the contract table has no schema for. */
import { Refusal } from "../../queue/refusal.ts";
import type { Call } from "../api.ts";

/** A field of a JSON body that no schema describes. */
export const field = (call: Call, name: string): unknown =>
  typeof call.wire === "object" && call.wire !== null ? (call.wire as Record<string, unknown>)[name] : undefined;

/** @throws {@link Refusal} 422 */
export function textField(call: Call, name: string): string {
  const value = field(call, name);
  if (typeof value !== "string" || value === "") throw new Refusal(422, "invalid_request", `${name}: must be a text`);
  return value;
}
