/** The live list of all runs: of the server, of run folders, and of both. Selected runs are compared. */
import { useMemo, useState } from "preact/hooks";
import { formatAge, formatCount, formatNumber } from "../format.ts";
import { wordOf } from "../outcome.ts";
import { maxCompared, Notice, Sparkline, Status } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { linesOfRuns, type RunLine } from "../run-lines.ts";
import { folders, maxRuns, now, runCount, runs, runsProblem, session } from "../store.ts";
import { oneLine } from "../text.ts";
import { VirtualRows } from "../virtual-rows.tsx";

const maxTags = 3;
/** Pixels of a row; the style sheet has the same numbers. */
const rowHeight = (width: number): number => (width <= 720 ? 132 : 64);

const orders = {
  recent: ["Last used", (a: RunLine, b: RunLine) => b.at - a.at],
  name: ["Name", (a: RunLine, b: RunLine) => a.name.localeCompare(b.name)],
  value: [
    "Loss or reward",
    (a: RunLine, b: RunLine) => (a.value ?? Number.POSITIVE_INFINITY) - (b.value ?? Number.POSITIVE_INFINITY),
  ],
  steps: ["Steps", (a: RunLine, b: RunLine) => b.steps - a.steps],
} as const;
type Order = keyof typeof orders;

export function Runs() {
  const [search, setSearch] = useState("");
  const [status, setStatus] = useState("");
  const [order, setOrder] = useState<Order>("recent");
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [runList, folderList] = [runs.value ?? [], folders.value];
  const all = useMemo(() => linesOfRuns(runList, folderList), [runList, folderList]);
  const lines = useMemo(() => {
    const wanted = search.toLowerCase();
    return all
      .filter((line) => (status === "" || line.status === status) && line.text.includes(wanted))
      .sort(orders[order][1]);
  }, [all, search, status, order]);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Runs</h1>
        <span class="soft">
          {runCount.value > maxRuns ? `the latest ${maxRuns} of ${formatCount(runCount.value)}` : ""}
        </span>
      </div>
      <div class="row controls">
        <input
          type="search"
          aria-label="Search runs"
          placeholder="Search by name, model or tag"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <select aria-label="Status" value={status} onChange={(event) => setStatus(event.currentTarget.value)}>
          <option value="">Any status</option>
          {["training", "waiting", "idle", "done", "failed", "folder"].map((word) => (
            <option key={word} value={word}>
              {word[0]!.toUpperCase() + word.slice(1)}
            </option>
          ))}
        </select>
        <select aria-label="Sort by" value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
          {Object.entries(orders).map(([key, [word]]) => (
            <option key={key} value={key}>
              {word}
            </option>
          ))}
        </select>
      </div>
      <List lines={lines} total={all.length} chosen={chosen} onChoose={setChosen} />
      <CompareBar chosen={chosen.filter((key) => all.some((line) => line.key === key))} onClear={() => setChosen([])} />
    </section>
  );
}

/** What to do with the selected runs. */
function CompareBar({ chosen, onClear }: { readonly chosen: readonly string[]; readonly onClear: () => void }) {
  const [first, ...others] = chosen;
  return (
    <div class={first === undefined ? "compare-bar hidden" : "compare-bar"}>
      <span role="status">
        {first === undefined
          ? ""
          : chosen.length === 1
            ? "1 run selected; select another one"
            : `${chosen.length} runs selected`}
      </span>
      {first === undefined ? null : (
        <>
          {others.length === 0 ? null : (
            <a class="button main" href={placeUrl(["runs", first], { compare: others.join(",") })}>
              Compare
            </a>
          )}
          <button type="button" onClick={onClear}>
            Clear
          </button>
        </>
      )}
    </div>
  );
}

interface ListProps {
  readonly lines: readonly RunLine[];
  readonly total: number;
  readonly chosen: readonly string[];
  readonly onChoose: (chosen: readonly string[]) => void;
}

/** Column heads with their classes, which give the widths: rows that come and go do not move the columns. */
const columns = [
  ["Compare", "choose-column"],
  ["Run", "name-column"],
  ["Status", "status-column"],
  ["Model", "model-column"],
  ["Curve", "curve-column"],
  ["Loss or reward", "number value-column"],
  ["Steps", "number"],
  ["Tokens", "number"],
  ["Last used", "number"],
] as const;

function List({ lines, total, chosen, onChoose }: ListProps) {
  if (runsProblem.value !== undefined && total === 0) return <Notice kind="problem" title={runsProblem.value} />;
  if (runs.value === undefined) return <Notice kind="loading" title="Loading runs …" />;
  if (total === 0) return <NoRuns />;
  if (lines.length === 0) {
    return (
      <Notice kind="empty" title="No run matches.">
        <p>Change the search or the status.</p>
      </Notice>
    );
  }
  return (
    <div class="scroll">
      <table class="list runs" data-testid="runs" aria-rowcount={lines.length + 1}>
        <thead>
          <tr>
            {columns.map(([word, kind]) => (
              <th key={word} scope="col" class={kind}>
                {kind === "choose-column" ? <span class="hidden">{word}</span> : word}
              </th>
            ))}
          </tr>
        </thead>
        <VirtualRows rows={lines} height={rowHeight} columns={columns.length}>
          {(line, i) => {
            const isChosen = chosen.includes(line.key);
            return (
              <Row
                key={line.key}
                line={line}
                index={i + 2}
                isChosen={isChosen}
                canChoose={isChosen || chosen.length < maxCompared}
                onChoose={() => onChoose(isChosen ? chosen.filter((key) => key !== line.key) : [...chosen, line.key])}
              />
            );
          }}
        </VirtualRows>
      </table>
    </div>
  );
}

interface RowProps {
  readonly line: RunLine;
  /** Row of the table, counted from 1 with its head. */
  readonly index: number;
  readonly isChosen: boolean;
  readonly canChoose: boolean;
  readonly onChoose: () => void;
}

function Row({ line, index, isChosen, canChoose, onChoose }: RowProps) {
  const name = oneLine(line.name, 80);
  return (
    <tr aria-rowindex={index} class={isChosen ? "chosen" : ""}>
      <td class="choose-column">
        <input
          type="checkbox"
          aria-label={`Compare ${name}`}
          checked={isChosen}
          disabled={!canChoose}
          onChange={onChoose}
        />
      </td>
      <th scope="row">
        <a href={placeUrl(["runs", line.key])}>{name}</a>
        <span class="under">
          {line.detail === "" ? null : <small>{oneLine(line.detail, 60)}</small>}
          {line.tags.slice(0, maxTags).map((tag) => (
            <span key={tag} class="tag">
              {oneLine(tag, 40)}
            </span>
          ))}
        </span>
      </th>
      <td class="nowrap">
        <Status status={line.status} />
        {line.reason === undefined ? null : (
          <small class="clipped" title={oneLine(line.reason, 400)}>
            {oneLine(line.reason, 90)}
          </small>
        )}
      </td>
      <td class="model">
        <span class="clipped">{oneLine(line.model, 48)}</span>
      </td>
      <td class="curve">
        <Sparkline values={line.outline} label={`${line.metric}, now ${formatNumber(line.value)}`} />
      </td>
      <td class="number" data-label="Value">
        {formatNumber(line.value)}
        {line.metric === "" ? null : <small>{oneLine(wordOf(line.metric), 32)}</small>}
      </td>
      <td class="number" data-label="Steps">
        {formatCount(line.steps)}
      </td>
      <td class="number" data-label="Tokens">
        {line.tokens === undefined ? "–" : formatCount(line.tokens)}
      </td>
      <td class="number" data-label="Used">
        {formatAge(line.at, now.value)}
      </td>
    </tr>
  );
}

const NoRuns = () => (
  <Notice kind="empty" title="No runs yet.">
    {session.value?.has_models === true ? (
      <>
        <p>To start a run, which then appears here:</p>
        <pre>
          export TINKER_BASE_URL={location.origin} TINKER_API_KEY=tml-…{"\n"}npx tinklet train data.jsonl
        </pre>
      </>
    ) : (
      <p>
        The folders contain no <code>metrics.jsonl</code>. Pass a run folder, or a folder that contains run folders.
      </p>
    )}
  </Notice>
);
