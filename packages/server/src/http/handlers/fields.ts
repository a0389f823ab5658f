/** Fields of bodies that the contract table has no schema for, and bounds of those that it has one for. */
import { stringifyJson } from "tinklet/wire";
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

/** Names and labels beyond this are a mistake. */
const maxTextLength = 1000;
/** Notes beyond this are a mistake, not a note. */
const maxMetadataBytes = 64 * 1024;

/** @throws {@link Refusal} 422 */
export function checkText(field: string, value: string | null | undefined): void {
  if ((value?.length ?? 0) <= maxTextLength) return;
  throw new Refusal(422, "invalid_request", `${field}: is longer than ${maxTextLength} characters`);
}

/** @throws {@link Refusal} 422 */
export function checkMetadata(field: string, value: unknown): void {
  if (value === undefined || stringifyJson(value).length <= maxMetadataBytes) return;
  throw new Refusal(422, "metadata_too_large", `${field}: more than ${maxMetadataBytes} bytes.`);
}
