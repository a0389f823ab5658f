/** The samples of a step with their rewards: chosen by the bars of a histogram, or one group side by side. */
import { useEffect, useState } from "preact/hooks";
import type { JsonValue } from "tinklet/wire";
import { call } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Choice, Notice } from "../parts.tsx";
import { problemText } from "../store.ts";
import { oneLine } from "../text.ts";
import { type Colouring, loadVocabulary, type Vocabulary } from "../tokens.ts";
import { type Fields, numberOf, Turns } from "./turns.tsx";

/** A sample, as the rollout summaries of the cookbooks have it. */
export interface Rollout {
  readonly group: number;
  readonly reward: number;
  /** Its reward less the mean of its group; 0 where it has none. */
  readonly advantage: number;
  readonly tags: string;
  readonly steps: readonly Fields[];
  readonly row: Fields;
}

const bars = 12;
const maxRows = 2000;
const firstShown = 40;
/** Samples of a group that are shown side by side. */
const maxCompared = 16;

export function rolloutOf(value: JsonValue): Rollout {
  const row = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : { value }) as Fields;
  const reward = numberOf(row["total_reward"] ?? row["reward"]);
  const tags = Array.isArray(row["tags"]) ? row["tags"].join(", ") : "";
  const steps = Array.isArray(row["steps"]) ? (row["steps"] as Fields[]) : [];
  return { group: numberOf(row["group_idx"] ?? row["group"]), reward, advantage: 0, tags, steps, row };
}

/** Samples with their advantages within their groups. */
export function withAdvantages(rows: readonly Rollout[]): Rollout[] {
  const sums = new Map<number, { sum: number; count: number }>();
  for (const { group, reward } of rows) {
    const one = sums.get(group) ?? { sum: 0, count: 0 };
    if (Number.isFinite(reward)) sums.set(group, { sum: one.sum + reward, count: one.count + 1 });
  }
  return rows.map((row) => {
    const { sum, count } = sums.get(row.group) ?? { sum: 0, count: 0 };
    const isKnown = Number.isFinite(row.group) && Number.isFinite(row.reward) && count > 0;
    return { ...row, advantage: isKnown ? row.reward - sum / count : 0 };
  });
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

export function Rollouts(props: {
  readonly folderId: string;
  readonly files: readonly string[];
  /** Whose tokens they are. */
  readonly model: string | undefined;
}) {
  const { folderId, files, model } = props;
  const [file, setFile] = useState(files.at(-1)!);
  const [rows, setRows] = useState<readonly Rollout[]>();
  const [total, setTotal] = useState(0);
  const [problem, setProblem] = useState<string>();
  const [bar, setBar] = useState<number>();
  const [group, setGroup] = useState<number>();
  const [shown, setShown] = useState(firstShown);
  const [colouring, setColouring] = useState<Colouring>("logprob");
  const [vocabulary, setVocabulary] = useState<Vocabulary>();
  const hasTokens = rows?.some(({ steps }) => steps.some((step) => Array.isArray(step["ac_tokens"]))) ?? false;
  useEffect(() => {
    let isOver = false;
    setRows(undefined);
    setBar(undefined);
    setGroup(undefined);
    call("getRollouts", { folderId, file, offset: 0, limit: maxRows }).then(
      (found) => {
        if (isOver) return;
        setRows(withAdvantages(found.rows.map(rolloutOf)));
        setTotal(found.total);
        setProblem(undefined);
      },
      (error: unknown) => setProblem(problemText(error)),
    );
    return () => {
      isOver = true;
    };
  }, [folderId, file]);
  useEffect(() => {
    if (hasTokens && model !== undefined) void loadVocabulary(model).then(setVocabulary);
  }, [hasTokens, model]);
  const groups = histogram((rows ?? []).map(({ reward }) => reward));
  const chosen = bar === undefined ? undefined : groups[bar];
  const wanted = (rows ?? []).filter(({ reward, group: own }) => {
    if (group !== undefined) return own === group;
    if (chosen === undefined) return true;
    const isLast = bar === groups.length - 1;
    return reward >= chosen.from && (isLast ? reward <= chosen.to : reward < chosen.to);
  });
  const look: Look = { colouring, vocabulary };
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
        {hasTokens ? (
          <Choice
            label="Colour of tokens"
            value={colouring}
            options={[
              ["logprob", "Log-prob"],
              ["advantage", "Advantage"],
              ["none", "None"],
            ]}
            onChange={setColouring}
          />
        ) : null}
      </div>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {rows === undefined ? (
        problem === undefined ? (
          <Notice kind="loading" title="Reading rollouts …" />
        ) : null
      ) : (
        <>
          <Bars
            groups={groups}
            bar={bar}
            onChoose={(next) => {
              setGroup(undefined);
              setBar(next);
            }}
          />
          <p class="soft" role="status" data-testid="rollout-count">
            {wanted.length} of {total} samples
            {total > maxRows ? `, the first ${maxRows} were read` : ""}
            {group === undefined ? "" : `: group ${group}`}
          </p>
          {group === undefined ? (
            <ul class="samples">
              {wanted.slice(0, shown).map((rollout, i) => (
                <Sample key={`${file} ${bar ?? ""} ${i}`} rollout={rollout} look={look} onGroup={setGroup} />
              ))}
            </ul>
          ) : (
            <Group rollouts={wanted} look={look} onClose={() => setGroup(undefined)} />
          )}
          {group === undefined && wanted.length > shown ? (
            <button type="button" onClick={() => setShown(shown + 200)}>
              Show more
            </button>
          ) : null}
        </>
      )}
    </section>
  );
}

/** How tokens are shown. */
export interface Look {
  readonly colouring: Colouring;
  readonly vocabulary: Vocabulary | undefined;
}

function Bars(props: {
  readonly groups: ReturnType<typeof histogram>;
  readonly bar: number | undefined;
  readonly onChoose: (bar: number | undefined) => void;
}) {
  const highest = Math.max(1, ...props.groups.map(({ count }) => count));
  return (
    <fieldset class="histogram">
      <legend class="hidden">Rewards; choose a bar to see its samples</legend>
      {props.groups.map(({ from, to, count }, i) => (
        <button
          type="button"
          key={from}
          aria-pressed={i === props.bar}
          aria-label={`Reward ${formatNumber(from)} to ${formatNumber(to)}: ${count} samples`}
          onClick={() => props.onChoose(i === props.bar ? undefined : i)}
        >
          <span class="bar" style={{ height: `${(count / highest) * 100}%` }} />
          <span class="bar-label">{formatNumber(from)}</span>
        </button>
      ))}
    </fieldset>
  );
}

function Sample(props: { readonly rollout: Rollout; readonly look: Look; readonly onGroup: (group: number) => void }) {
  const [isOpen, setOpen] = useState(false);
  const { group, reward, tags, steps } = props.rollout;
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
        {isOpen ? (
          <>
            {Number.isNaN(group) ? null : (
              <button type="button" class="quiet" onClick={() => props.onGroup(group)}>
                Compare group {group}
              </button>
            )}
            <Turns {...props.rollout} look={props.look} />
          </>
        ) : null}
      </details>
    </li>
  );
}

/** The samples of one group side by side, the best first. */
function Group(props: { readonly rollouts: readonly Rollout[]; readonly look: Look; readonly onClose: () => void }) {
  const sorted = [...props.rollouts].sort((a, b) => b.reward - a.reward).slice(0, maxCompared);
  return (
    <>
      <button type="button" onClick={props.onClose}>
        All groups
      </button>
      <ul class="group" data-testid="group">
        {sorted.map((rollout, i) => (
          <li key={i} class="card">
            <strong>{formatNumber(rollout.reward)}</strong>{" "}
            <span class="soft">advantage {formatNumber(rollout.advantage)}</span>
            <Turns {...rollout} look={props.look} />
          </li>
        ))}
      </ul>
    </>
  );
}
