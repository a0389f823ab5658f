/** Traces of programs: a list that is filtered by the server and loaded page by page. Selected traces become training data. */
import type { TraceSummary } from "@tinklet/wire";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatAge, formatCount, formatTime } from "../format.ts";
import { Notice } from "../parts.tsx";
import { place, placeUrl, replacePlace } from "../router.ts";
import { now } from "../store.ts";
import { oneLine } from "../text.ts";
import {
  filtersOf,
  type ListFilters,
  loadMoreTraces,
  loadTraces,
  maxTraces,
  type TraceFilterName,
  type TraceList,
  traceList,
  tracesUrl,
} from "../trace-list.ts";
import { maxSelected, type TrainSelection } from "../train-commands.ts";
import { VirtualRows } from "../virtual-rows.tsx";
import { RatingMark } from "./rating.tsx";
import { TrainDialog } from "./train-dialog.tsx";

/** Pixels of a row; the style sheet has the same numbers. */
const rowHeight = (width: number): number => (width <= 720 ? 112 : 64);
/** Rows below the window at which the next page is loaded. */
const loadAhead = 100;
/** Time without typing after which a filter is applied. */
const typingMs = 300;

export function Traces() {
  const filters = filtersOf(place.value.query);
  const url = tracesUrl(filters);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [training, setTraining] = useState<TrainSelection>();
  const [shownTo, setShownTo] = useState(0);
  const list = traceList.value;
  const isCurrent = list !== undefined && tracesUrl(list.filters) === url;
  useEffect(() => {
    if (isCurrent) return;
    setChosen(new Set());
    setShownTo(0);
    void loadTraces(filters);
  }, [url, isCurrent]);
  useEffect(() => {
    const { rows, cursor, problem } = list ?? {};
    // A search may return a page without rows; the next one follows at once.
    if (isCurrent && cursor !== undefined && problem === undefined && shownTo + loadAhead >= rows!.length)
      void loadMoreTraces();
  }, [list, shownTo, isCurrent]);
  const choose = (traceId: string) => {
    const next = new Set(chosen);
    if (!next.delete(traceId)) next.add(traceId);
    setChosen(next);
  };
  const rows = isCurrent ? list.rows : [];
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Traces</h1>
        <button type="button" class="quiet" onClick={() => void loadTraces(filters)}>
          Refresh
        </button>
        {rows.length === 0 ? null : (
          <>
            <button
              type="button"
              class="quiet"
              onClick={() => setChosen(new Set(rows.slice(0, maxSelected).map(({ traceId }) => traceId)))}
            >
              Select all
            </button>
            <button type="button" class="quiet" onClick={() => setTraining({ filters })}>
              Train on all …
            </button>
          </>
        )}
        {isCurrent ? <Count list={list} /> : null}
      </div>
      <Filters filters={filters} rows={rows} />
      {isCurrent ? (
        <List list={list} chosen={chosen} onChoose={choose} onShown={setShownTo} />
      ) : (
        <Notice kind="loading" title="Loading traces …" />
      )}
      <ChosenBar
        count={chosen.size}
        onTrain={() => setTraining({ traceIds: [...chosen] })}
        onClear={() => setChosen(new Set())}
      />
      {training === undefined ? null : <TrainDialog selection={training} onClose={() => setTraining(undefined)} />}
    </section>
  );
}

const Count = ({ list: { rows, cursor, isLoading } }: { readonly list: TraceList }) => (
  <span class="soft" role="status" data-testid="trace-count">
    {formatCount(rows.length)} {rows.length === 1 ? "trace" : "traces"}
    {rows.length >= maxTraces ? ", the newest" : cursor === undefined && !isLoading ? "" : " loaded"}
    {isLoading && rows.length > 0 ? " …" : ""}
  </span>
);

const selects = {
  error: [
    ["", "With or without error"],
    ["true", "With an error"],
    ["false", "Without an error"],
  ],
  rating: [
    ["", "Any rating"],
    ["up", "Rated good"],
    ["down", "Rated bad"],
    ["rated", "Rated or edited"],
    ["unrated", "Not rated"],
  ],
} as const;

const typedFilters = [
  ["text", "Text", "Search in messages and calls"],
  ["model", "Model", "Model"],
  ["tool", "Tool", "Tool"],
] as const;

/** The filters; those that are typed are applied after a pause. */
function Filters({ filters, rows }: { readonly filters: ListFilters; readonly rows: readonly TraceSummary[] }) {
  const [typed, setTyped] = useState(filters);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const apply = (next: ListFilters) => {
    clearTimeout(timer.current);
    timer.current = undefined;
    replacePlace(tracesUrl(filtersOf(new URLSearchParams(next))));
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (timer.current === undefined) setTyped(filters);
  }, [tracesUrl(filters)]);
  const change = (name: TraceFilterName, value: string, isTyped: boolean) => {
    const next = { ...typed, [name]: value };
    setTyped(next);
    clearTimeout(timer.current);
    if (isTyped) timer.current = setTimeout(() => apply(next), typingMs);
    else apply(next);
  };
  const known = {
    text: [],
    model: namesIn(rows.flatMap(({ models }) => models)),
    tool: namesIn(rows.flatMap(({ tools }) => tools)),
  };
  return (
    <div class="row controls trace-filters">
      {typedFilters.map(([name, label, placeholder]) => (
        <input
          key={name}
          type="search"
          aria-label={label}
          placeholder={placeholder}
          list={name === "text" ? undefined : `known-${name}`}
          maxLength={1000}
          value={typed[name] ?? ""}
          onInput={(event) => change(name, event.currentTarget.value, true)}
        />
      ))}
      {(["model", "tool"] as const).map((name) => (
        <datalist key={name} id={`known-${name}`}>
          {known[name].map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      ))}
      {(["error", "rating"] as const).map((name) => (
        <select
          key={name}
          aria-label={name === "error" ? "Error" : "Rating"}
          value={typed[name] ?? ""}
          onChange={(event) => change(name, event.currentTarget.value, false)}
        >
          {selects[name].map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      ))}
    </div>
  );
}

/** Names that a field suggests. */
const namesIn = (names: readonly string[]): readonly string[] => [...new Set(names)].slice(0, 50);

/** What to do with the selected traces. */
function ChosenBar(props: { readonly count: number; readonly onTrain: () => void; readonly onClear: () => void }) {
  const { count, onTrain, onClear } = props;
  return (
    <div class={count === 0 ? "compare-bar hidden" : "compare-bar"}>
      <span role="status">{count === 0 ? "" : `${formatCount(count)} selected`}</span>
      {count === 0 ? null : (
        <>
          <button type="button" class="main" onClick={onTrain}>
            Train …
          </button>
          <button type="button" onClick={onClear}>
            Clear
          </button>
        </>
      )}
    </div>
  );
}

const columns = [
  ["Select", "choose-column"],
  ["Conversation", "name-column"],
  ["Rating", "rating-column"],
  ["Model", "model-column"],
  ["Tools", "model-column"],
  ["Tokens", "number"],
  ["Started", "number"],
] as const;

interface ListProps {
  readonly list: TraceList;
  readonly chosen: ReadonlySet<string>;
  readonly onChoose: (traceId: string) => void;
  readonly onShown: (to: number) => void;
}

function List({ list, chosen, onChoose, onShown }: ListProps) {
  const { rows, cursor, isLoading, problem } = list;
  const failed =
    problem === undefined ? null : (
      <Notice kind="problem" title={problem}>
        <button type="button" onClick={() => void (rows.length === 0 ? loadTraces(list.filters) : loadMoreTraces())}>
          Try again
        </button>
      </Notice>
    );
  if (rows.length === 0) {
    if (failed !== null) return failed;
    if (isLoading || cursor !== undefined) return <Notice kind="loading" title="Loading traces …" />;
    return Object.keys(list.filters).length === 0 ? <NoTraces /> : <NoMatch />;
  }
  return (
    <>
      <div class="scroll">
        <table
          class="list traces"
          data-testid="traces"
          aria-rowcount={cursor === undefined && !isLoading ? rows.length + 1 : -1}
        >
          <thead>
            <tr>
              {columns.map(([word, kind]) => (
                <th key={word} scope="col" class={kind}>
                  {kind === "choose-column" ? <span class="hidden">{word}</span> : word}
                </th>
              ))}
            </tr>
          </thead>
          <VirtualRows rows={rows} height={rowHeight} columns={columns.length} onShown={onShown}>
            {(one, i) => (
              <Row
                key={one.traceId}
                one={one}
                index={i + 2}
                isChosen={chosen.has(one.traceId)}
                canChoose={chosen.size < maxSelected}
                onChoose={() => onChoose(one.traceId)}
              />
            )}
          </VirtualRows>
        </table>
      </div>
      {failed}
    </>
  );
}

interface RowProps {
  readonly one: TraceSummary;
  /** Row of the table, counted from 1 with its head. */
  readonly index: number;
  readonly isChosen: boolean;
  readonly canChoose: boolean;
  readonly onChoose: () => void;
}

function Row({ one, index, isChosen, canChoose, onChoose }: RowProps) {
  const name = titleOf(one);
  return (
    <tr aria-rowindex={index} class={isChosen ? "chosen" : ""}>
      <td class="choose-column">
        <input
          type="checkbox"
          aria-label={`Select ${name}`}
          checked={isChosen}
          disabled={!isChosen && !canChoose}
          onChange={onChoose}
        />
      </td>
      <th scope="row">
        <a href={placeUrl(["traces", one.traceId])}>{name}</a>
        <small>{oneLine(one.answer ?? one.service ?? "", 160)}</small>
      </th>
      <td class="rating">
        <RatingMark one={one} />
        {one.error === undefined ? null : (
          <span class="status status-failed" title={oneLine(one.error, 400)}>
            Error
          </span>
        )}
      </td>
      <td class="model">
        <span class="clipped">{oneLine(one.models.join(", "), 48)}</span>
      </td>
      <td class="tools">
        <span class="clipped">{oneLine(one.tools.join(", "), 48)}</span>
      </td>
      <td class="number" data-label="Tokens">
        {formatCount(one.inputTokens + one.outputTokens)}
      </td>
      <td class="number" data-label="Started">
        <time dateTime={one.startedAt.toISOString()} title={formatTime(one.startedAt)}>
          {formatAge(one.startedAt, now.value)}
        </time>
      </td>
    </tr>
  );
}

/** The user's message, or the id of a trace without one. */
export const titleOf = (one: TraceSummary): string => oneLine(one.prompt?.trim() || `Trace ${one.traceId}`, 100);

const NoTraces = () => (
  <Notice kind="empty" title="No traces yet.">
    <p>A program that exports OpenTelemetry traces needs the address of this server:</p>
    <pre>export OTEL_EXPORTER_OTLP_ENDPOINT={location.origin}</pre>
  </Notice>
);

const NoMatch = () => (
  <Notice kind="empty" title="No trace matches.">
    <p>
      <a href={tracesUrl()}>Remove the filters</a>
    </p>
  </Notice>
);
