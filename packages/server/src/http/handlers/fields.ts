/** Bounds of fields that the contract leaves open. */
import { stringifyJson } from "@tinklet/wire";
import { Refusal } from "../../queue/refusal.ts";

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
