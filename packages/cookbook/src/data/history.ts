/**
 * What to do with a conversation whose template renders an earlier answer differently from the sampled one: without its reasoning, or
 * with another end token. One sequence cannot then show every answer the context in which it was sampled.
 */
import { createChat } from "@tinklet/models/chat";
import { InvalidInputError, type Tokenizer } from "@tinklet/sdk";

/**
 * - `detect`: one example where the template keeps earlier answers, checked for each conversation; else as few examples as show every
 *   answer its own context.
 * - `split`: an example for each answer, as the official cookbook does for such families.
 * - `refuse`: an error names the message that changed.
 */
export type HistoryPolicy = "detect" | "split" | "refuse";
const policies: readonly HistoryPolicy[] = ["detect", "split", "refuse"];

/** Policies by the name of the family ({@link createChat}'s `format.name`). To extend them: `{ ...historyPolicies, mine: "split" }`. */
export type HistoryPolicies = Readonly<Record<string, HistoryPolicy>>;

/** The families whose policy is not `detect`. */
export const historyPolicies: HistoryPolicies = {
  harmony: "split", // ends the last answer with <|return|>, earlier ones with <|end|>
};

/** The policy for a model. @throws InvalidInputError for one that does not exist. */
export function historyPolicyOf(tokenizer: Tokenizer, table: HistoryPolicy | HistoryPolicies): HistoryPolicy {
  const policy = typeof table === "string" ? table : (table[createChat(tokenizer).format.name] ?? "detect");
  if (!policies.includes(policy))
    throw new InvalidInputError("history", `must be one of ${policies.join(", ")}, got ${String(policy)}`);
  return policy;
}
