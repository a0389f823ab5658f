/** The name of a new run in its metadata, which every server stores. Loaded when a name is given. */
import type { UserMetadata } from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe } from "@tinklet/wire/options";
import { checkRunName, nameKey, runNameRule } from "@tinklet/wire/run-name";

/** @throws {@link InvalidInputError} when the name is invalid, is that of the base model, or differs from the name in the metadata */
export function namedMetadata(options: {
  readonly name?: string | undefined;
  readonly baseModel?: string | undefined;
  readonly userMetadata?: UserMetadata | undefined;
}): UserMetadata {
  const { baseModel, userMetadata } = options;
  const name = checkRunName("name", options.name);
  if (name === baseModel)
    throw new InvalidInputError("name", `must not be the name of the base model, ${describe(name)}`, {
      hint: runNameRule,
    });
  const other = userMetadata?.[nameKey];
  if (other !== undefined && other !== name) {
    throw new InvalidInputError("name", `is ${describe(name)}, but userMetadata.name is ${describe(other)}`, {
      hint: "Leave one of them out.",
    });
  }
  return { ...userMetadata, [nameKey]: name };
}
