/** Usage of the signed-in key in the last thirty days by model, from the billing records. */
import type { BillingUsageEvent } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { formatCount } from "../format.ts";
import { Notice, WideTable } from "../parts.tsx";
import { problemText } from "../store.ts";
import { oneLine } from "../text.ts";

const days = 30;
const dayMs = 86_400_000;
const kinds = ["training", "sampled", "prefilled", "reused"] as const;
type Kind = (typeof kinds)[number];
const words: Record<Kind, string> = {
  training: "Trained",
  sampled: "Sampled",
  prefilled: "Prompts",
  reused: "Prompts, reused",
};

/** Tokens by model and kind. Storage and checkpoint counts are not tokens and are skipped. */
export function tokensByModel(events: readonly BillingUsageEvent[]): ReadonlyMap<string, Record<Kind, number>> {
  const found = new Map<string, Record<Kind, number>>();
  for (const { baseModel, eventInfo } of events) {
    const kind: Kind | undefined =
      eventInfo.type === "training"
        ? "training"
        : eventInfo.type === "sampling_sample"
          ? "sampled"
          : eventInfo.type !== "sampling_prefill"
            ? undefined
            : "cached" in eventInfo && eventInfo.cached
              ? "reused"
              : "prefilled";
    if (kind === undefined || !("tokenCount" in eventInfo)) continue;
    const name = baseModel ?? "–";
    const sums = found.get(name) ?? { training: 0, sampled: 0, prefilled: 0, reused: 0 };
    sums[kind] += eventInfo.tokenCount;
    found.set(name, sums);
  }
  return found;
}

export function Usage({ tenant }: { readonly tenant: string }) {
  const [events, setEvents] = useState<readonly BillingUsageEvent[]>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const now = Date.now();
    call("getBillingUsage", { startingOn: new Date(now - days * dayMs), endingBefore: new Date(now + dayMs) }).then(
      ({ data }) => setEvents(data),
      (error: unknown) => setProblem(problemText(error)),
    );
  }, [tenant]);
  if (problem !== undefined) return <Notice kind="problem" title={problem} />;
  if (events === undefined) return null;
  const used = [...tokensByModel(events)];
  return (
    <>
      <h2>
        Tokens of the key {oneLine(tenant, 40)}, last {days} days
      </h2>
      {used.length === 0 ? (
        <p class="soft">No usage yet.</p>
      ) : (
        <WideTable name="Tokens by model">
          <table data-testid="usage">
            <thead>
              <tr>
                <th scope="col">Model</th>
                {kinds.map((kind) => (
                  <th key={kind} scope="col" class="number">
                    {words[kind]}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {used.map(([model, sums]) => (
                <tr key={model}>
                  <th scope="row">{oneLine(model, 80)}</th>
                  {kinds.map((kind) => (
                    <td key={kind} class="number">
                      {formatCount(sums[kind])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </WideTable>
      )}
    </>
  );
}
