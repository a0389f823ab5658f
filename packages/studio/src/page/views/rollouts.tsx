/** The rollouts of a step with their rewards, filtered by the bars of a histogram, or one group side by side. */
import type { StepLogEntry } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Choice, Notice } from "../parts.tsx";
import { histogram, type Rollout, rolloutOf, withAdvantages } from "../run-rows.ts";
import { problemText } from "../store.ts";
import { oneLine } from "../text.ts";
import { type Colouring, loadVocabulary, type Vocabulary } from "../tokens.ts";
import { StepLog } from "./step-log.tsx";
import { Turns } from "./turns.tsx";

const maxRows = 2000;
const firstShown = 40;
/** Maximum samples of a group shown side by side. */
const maxBeside = 16;

export function Rollouts(props: {
  readonly folderId: string;
  readonly files: readonly string[];
  /** The model whose tokenizer is used to display tokens. */
  readonly model: string | undefined;
}) {
  const { folderId, files, model } = props;
  const [file, setFile] = useState(files.at(-1)!);
  const [rows, setRows] = useState<readonly Rollout[]>();
  const [total, setTotal] = useState(0);
  const [log, setLog] = useState<readonly StepLogEntry[]>([]);
  const [problem, setProblem] = useState<string>();
  const [bar, setBar] = useState<number>();
  const [group, setGroup] = useState<number>();
  const [shown, setShown] = useState(firstShown);
  const [colouring, setColouring] = useState<Colouring>("logprob");
  const [vocabulary, setVocabulary] = useState<Vocabulary>();
  const hasTokens = rows?.some(({ steps }) => steps.some((step) => Array.isArray(step["ac_tokens"]))) ?? false;
  const hasKl = rows?.some(({ steps }) => steps.some((step) => Array.isArray(step["ac_train_logprobs"]))) ?? false;
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
        setLog(found.log);
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
  const visibleRollouts = (rows ?? []).filter(({ reward, group: rolloutGroup }) => {
    if (group !== undefined) return rolloutGroup === group;
    if (chosen === undefined) return true;
    const isLast = bar === groups.length - 1;
    return reward >= chosen.from && (isLast ? reward <= chosen.to : reward < chosen.to);
  });
  const look: TokenDisplay = { colouring, vocabulary };
  return (
    <section class="panel rollouts" aria-labelledby="rollouts-title">
      <div class="head">
        <h2 id="rollouts-title">Rollouts</h2>
        <select aria-label="Rollout file" value={file} onChange={(event) => setFile(event.currentTarget.value)}>
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
              ...(hasKl ? ([["kl", "KL"]] as const) : []),
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
            {visibleRollouts.length} of {total} samples
            {total > maxRows ? `, only the first ${maxRows} were loaded` : ""}
            {group === undefined ? "" : `: group ${group}`}
          </p>
          {group === undefined ? (
            <ul class="samples">
              {visibleRollouts.slice(0, shown).map((rollout, i) => (
                <Sample key={`${file} ${bar ?? ""} ${i}`} rollout={rollout} look={look} onGroup={setGroup} />
              ))}
            </ul>
          ) : (
            <Group rollouts={visibleRollouts} look={look} onClose={() => setGroup(undefined)} />
          )}
          {group === undefined && visibleRollouts.length > shown ? (
            <button type="button" onClick={() => setShown(shown + 200)}>
              Show more
            </button>
          ) : null}
          <StepLog key={file} log={log} />
        </>
      )}
    </section>
  );
}

/** Display settings of tokens. */
export interface TokenDisplay {
  readonly colouring: Colouring;
  readonly vocabulary: Vocabulary | undefined;
}

function Bars(props: {
  readonly groups: ReturnType<typeof histogram>;
  readonly bar: number | undefined;
  readonly onChoose: (bar: number | undefined) => void;
}) {
  const highest = Math.max(1, ...props.groups.map(({ count }) => count));
  const [only] = props.groups;
  if (only === undefined) return null;
  // One value has no distribution to draw.
  if (props.groups.length === 1)
    return (
      <p>
        {only.count === 1 ? "The reward" : `All ${only.count} rewards`} {only.count === 1 ? "is" : "are"}{" "}
        <strong>{formatNumber(only.from)}</strong>
        {only.count > 1 ? ": these samples give nothing to learn from." : "."}
      </p>
    );
  return (
    <fieldset class="histogram">
      <legend class="hidden">Rewards; select a bar to see its samples</legend>
      {props.groups.map(({ from, to, count }, i) => (
        <button
          type="button"
          key={from}
          aria-pressed={i === props.bar}
          aria-label={`Reward ${formatNumber(from)} to ${formatNumber(to)}: ${count} samples`}
          onClick={() => props.onChoose(i === props.bar ? undefined : i)}
        >
          <span class="bar" style={{ "--share": count / highest }} />
          <span class="bar-label">{formatNumber(from)}</span>
        </button>
      ))}
    </fieldset>
  );
}

function Sample(props: {
  readonly rollout: Rollout;
  readonly look: TokenDisplay;
  readonly onGroup: (group: number) => void;
}) {
  const [isOpen, setOpen] = useState(false);
  const { group, reward, tags, steps } = props.rollout;
  const logs = steps.map((step) => step["logs"]).find((value) => typeof value === "object" && value !== null);
  const name = props.rollout.row["group_name"];
  const preview = [
    ...(typeof name === "string" ? [name] : []),
    ...(logs === undefined || logs === null ? [] : Object.values(logs).map(String)),
  ]
    .join(" · ")
    .slice(0, 200);
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

/** The samples of one group side by side, highest reward first. */
function Group(props: {
  readonly rollouts: readonly Rollout[];
  readonly look: TokenDisplay;
  readonly onClose: () => void;
}) {
  const sorted = [...props.rollouts].sort((a, b) => b.reward - a.reward).slice(0, maxBeside);
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
