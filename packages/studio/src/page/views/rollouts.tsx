/** The samples of a step with their rewards: chosen by the bars of a histogram, group by group, each turn with what was logged of it. */
import { useEffect, useState } from "preact/hooks";
import type { JsonValue } from "tinklet/wire";
import { call } from "../api.ts";
import { formatNumber } from "../format.ts";
import { ForeignText, Notice } from "../parts.tsx";
import { problemText } from "../store.ts";
import { oneLine } from "../text.ts";

type Fields = Readonly<Record<string, JsonValue>>;

/** A sample, as the rollout summaries of the cookbooks have it. */
export interface Rollout {
  readonly group: number;
  readonly reward: number;
  readonly tags: string;
  readonly steps: readonly Fields[];
  readonly row: Fields;
}

const bars = 12;
const maxRows = 2000;
const firstShown = 40;

const numberOf = (value: JsonValue | undefined): number => (typeof value === "number" ? value : Number.NaN);

export function rolloutOf(value: JsonValue): Rollout {
  const row = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : { value }) as Fields;
  const reward = numberOf(row["total_reward"] ?? row["reward"]);
  const tags = Array.isArray(row["tags"]) ? row["tags"].join(", ") : "";
  const steps = Array.isArray(row["steps"]) ? (row["steps"] as Fields[]) : [];
  return { group: numberOf(row["group_idx"] ?? row["group"]), reward, tags, steps, row };
}

/** Rewards in bars of equal width. */
export function histogram(
  rewards: readonly number[],
): { readonly from: number; readonly to: number; readonly count: number }[] {
  const finite = rewards.filter(Number.isFinite);
  if (finite.length === 0) return [];
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const reward of finite) {
    low = Math.min(low, reward);
    high = Math.max(high, reward);
  }
  const width = (high - low) / bars || 1;
  const count = high === low ? 1 : bars;
  const found = Array.from({ length: count }, (_, i) => ({
    from: low + i * width,
    to: low + (i + 1) * width,
    count: 0,
  }));
  for (const reward of finite) found[Math.min(count - 1, Math.floor((reward - low) / width))]!.count++;
  return found;
}

export function Rollouts({ folderId, files }: { readonly folderId: string; readonly files: readonly string[] }) {
  const [file, setFile] = useState(files.at(-1)!);
  const [rows, setRows] = useState<readonly Rollout[]>();
  const [total, setTotal] = useState(0);
  const [problem, setProblem] = useState<string>();
  const [bar, setBar] = useState<number>();
  const [shown, setShown] = useState(firstShown);
  useEffect(() => {
    let isOver = false;
    setRows(undefined);
    setBar(undefined);
    call("getRollouts", { folderId, file, offset: 0, limit: maxRows }).then(
      (found) => {
        if (isOver) return;
        setRows(found.rows.map(rolloutOf));
        setTotal(found.total);
        setProblem(undefined);
      },
      (error: unknown) => setProblem(problemText(error)),
    );
    return () => {
      isOver = true;
    };
  }, [folderId, file]);
  const groups = histogram((rows ?? []).map(({ reward }) => reward));
  const chosen = bar === undefined ? undefined : groups[bar];
  const wanted = (rows ?? []).filter(({ reward }) => {
    if (chosen === undefined) return true;
    const isLast = bar === groups.length - 1;
    return reward >= chosen.from && (isLast ? reward <= chosen.to : reward < chosen.to);
  });
  const highest = Math.max(1, ...groups.map(({ count }) => count));
  return (
    <section class="panel rollouts" aria-labelledby="rollouts-title">
      <div class="head">
        <h2 id="rollouts-title">Rollouts</h2>
        <select aria-label="File of rollouts" value={file} onChange={(event) => setFile(event.currentTarget.value)}>
          {files.map((name) => (
            <option key={name} value={name}>
              {oneLine(name, 80)}
            </option>
          ))}
        </select>
      </div>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {rows === undefined ? (
        problem === undefined ? (
          <Notice kind="loading" title="Reading rollouts …" />
        ) : null
      ) : (
        <>
          <fieldset class="histogram">
            <legend class="hidden">Rewards; choose a bar to see its samples</legend>
            {groups.map(({ from, to, count }, i) => (
              <button
                type="button"
                key={from}
                aria-pressed={i === bar}
                aria-label={`Reward ${formatNumber(from)} to ${formatNumber(to)}: ${count} samples`}
                onClick={() => setBar(i === bar ? undefined : i)}
              >
                <span class="bar" style={{ height: `${(count / highest) * 100}%` }} />
                <span class="bar-label">{formatNumber(from)}</span>
              </button>
            ))}
          </fieldset>
          <p class="soft" role="status" data-testid="rollout-count">
            {wanted.length} of {total} samples
            {total > maxRows ? `, the first ${maxRows} were read` : ""}
          </p>
          <ul class="samples">
            {wanted.slice(0, shown).map((rollout, i) => (
              <Sample key={`${file} ${bar ?? ""} ${i}`} rollout={rollout} />
            ))}
          </ul>
          {wanted.length > shown ? (
            <button type="button" onClick={() => setShown(shown + 200)}>
              Show more
            </button>
          ) : null}
        </>
      )}
    </section>
  );
}

function Sample({ rollout }: { readonly rollout: Rollout }) {
  const [isOpen, setOpen] = useState(false);
  const { group, reward, tags, steps, row } = rollout;
  const logs = steps.map((step) => step["logs"]).find((value) => typeof value === "object" && value !== null);
  const preview = logs === undefined || logs === null ? "" : Object.values(logs).map(String).join(" · ").slice(0, 200);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="reward">{formatNumber(reward)}</span>
          {Number.isNaN(group) ? null : <span class="tag">group {group}</span>}
          {tags === "" ? null : <span class="tag">{oneLine(tags, 40)}</span>}
          <span class="preview">{oneLine(preview, 140)}</span>
        </summary>
        {isOpen ? <Turns steps={steps} row={row} /> : null}
      </details>
    </li>
  );
}

const shownTurns = 100;

function Turns({ steps, row }: { readonly steps: readonly Fields[]; readonly row: Fields }) {
  const texts = (fields: JsonValue | undefined): [string, string][] =>
    typeof fields === "object" && fields !== null && !Array.isArray(fields)
      ? Object.entries(fields).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)])
      : [];
  const conversation = ["prompt", "messages", "response", "text", "completion"].flatMap((key) =>
    row[key] === undefined ? [] : texts({ [key]: row[key] }),
  );
  return (
    <ol class="turns">
      {conversation.map(([key, text]) => (
        <li key={key}>
          <strong>{key}</strong>
          <ForeignText text={text} />
        </li>
      ))}
      {steps.slice(0, shownTurns).map((step, i) => (
        <li key={i}>
          <span class="soft">
            Turn {i + 1}: reward {formatNumber(numberOf(step["reward"]))}, {formatNumber(numberOf(step["ob_len"]))}{" "}
            tokens read, {formatNumber(numberOf(step["ac_len"]))} written
          </span>
          {[...texts(step["logs"]), ...texts(step["metrics"])].map(([key, text]) => (
            <div key={key} class="log">
              <strong>{oneLine(key, 60)}</strong>
              <ForeignText text={text} />
            </div>
          ))}
        </li>
      ))}
    </ol>
  );
}
