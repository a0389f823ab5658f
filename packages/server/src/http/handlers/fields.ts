/** Limits of fields that the contract does not limit. */
import { stringifyJson } from "@tinklet/wire";
import { Refusal } from "../../queue/refusal.ts";
import type { Api } from "../api.ts";

/** Characters of names and labels. */
const maxTextLength = 1000;
const maxMetadataBytes = 64 * 1024;
/** Largest number within a session or model. */
const maxNumber = 2 ** 31 - 1;

/** @param most - inclusive. @throws {@link Refusal} 422 */
export function checkNumber(field: string, value: number | bigint, least = 0, most: number | bigint = maxNumber): void {
  if (value >= least && value <= most) return;
  throw new Refusal(422, "invalid_request", `${field}: must be from ${least} to ${most}, got ${value}`);
}

/** @throws {@link Refusal} 400 when no model of this name is served */
export function checkBaseModel(api: Pick<Api, "models">, name: string): void {
  if (api.models.has(name)) return;
  const served = [...api.models.keys()].map((item) => JSON.stringify(item)).join(", ");
  throw new Refusal(
    400,
    "unknown_base_model",
    `base_model: ${JSON.stringify(name.slice(0, 200))} is not served here; this server has ${served}. Models are chosen when the server starts (--model, models).`,
  );
}

/** @throws {@link Refusal} 422 */
export function checkText(field: string, value: string | null | undefined): void {
  if ((value?.length ?? 0) <= maxTextLength) return;
  throw new Refusal(
    422,
    "invalid_request",
    `${field}: must have at most ${maxTextLength} characters, got ${value?.length}`,
  );
}

/** @throws {@link Refusal} 422 */
export function checkMetadata(field: string, value: unknown): void {
  const length = value === undefined ? 0 : stringifyJson(value).length;
  if (length <= maxMetadataBytes) return;
  throw new Refusal(422, "metadata_too_large", `${field}: must have at most ${maxMetadataBytes} bytes, got ${length}`);
}
