/** The live list of all runs of the server and of run folders. */
import type { RunFolder, RunProgress } from "@tinklet/wire";
import { useState } from "preact/hooks";
import { formatAge, formatCount, formatNumber } from "../format.ts";
import { Notice, Sparkline, Status } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { folders, now, runCount, runs, runsProblem, session } from "../store.ts";
import { oneLine } from "../text.ts";

/** A row of the list. */
interface Line {
  readonly key: string;
  readonly href: string;
  readonly name: string;
  readonly detail: string;
  readonly status: RunProgress["status"] | "folder";
  readonly reason: string | undefined;
  readonly model: string;
  readonly tags: readonly string[];
  readonly steps: number;
  readonly metric: string;
  readonly value: number | undefined;
  readonly tokens: number | undefined;
  readonly outline: readonly number[];
  readonly at: number;
}

const maxTags = 4;

/** The run's display name, or its id if the name is empty or invisible. */
export const runName = (run: RunProgress): string =>
  oneLine(run.displayName ?? "").trim() === "" ? run.runId : run.displayName!;

function lineOfRun(run: RunProgress): Line {
  const notes = Object.entries(run.userMetadata).map(([key, value]) => `${key}: ${value}`);
  return {
    key: run.runId,
    href: placeUrl(["runs", run.runId]),
    name: runName(run),
    detail: run.displayName === undefined ? "" : run.runId,
    status: run.status,
    reason: run.reason,
    model: run.baseModel,
    tags: [...run.tags, ...notes],
    steps: run.steps,
    metric: "loss",
    value: run.loss,
    tokens: run.tokens,
    outline: run.sparkline,
    at: run.lastRequestAt.getTime(),
  };
}

function lineOfFolder(folder: RunFolder): Line {
  return {
    key: folder.folderId,
    href: placeUrl(["folders", folder.folderId]),
    name: folder.name,
    detail: folder.runIds.join(", "),
    status: "folder",
    reason: undefined,
    model: folder.model ?? "–",
    tags: folder.rollouts.length > 0 ? ["rollouts"] : [],
    steps: folder.rows,
    metric: folder.metric ?? "",
    value: folder.metric === undefined ? undefined : folder.last[folder.metric],
    tokens: undefined,
    outline: folder.sparkline,
    at: folder.updatedAt.getTime(),
  };
}

const orders = {
  recent: ["Last used", (a: Line, b: Line) => b.at - a.at],
  name: ["Name", (a: Line, b: Line) => a.name.localeCompare(b.name)],
  value: [
    "Loss or reward",
    (a: Line, b: Line) => (a.value ?? Number.POSITIVE_INFINITY) - (b.value ?? Number.POSITIVE_INFINITY),
  ],
  steps: ["Steps", (a: Line, b: Line) => b.steps - a.steps],
} as const;
type Order = keyof typeof orders;

export function Runs() {
  const [search, setSearch] = useState("");
  const [status, setStatus] = useState("");
  const [order, setOrder] = useState<Order>("recent");
  const all = [...(runs.value ?? []).map(lineOfRun), ...folders.value.map(lineOfFolder)];
  const wanted = search.toLowerCase();
  const lines = all
    .filter((line) => status === "" || line.status === status)
    .filter((line) =>
      [line.name, line.key, line.model, ...line.tags].some((text) => text.toLowerCase().includes(wanted)),
    )
    .sort(orders[order][1]);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Runs</h1>
        <span class="soft">{runCount.value > 200 ? `the latest 200 of ${formatCount(runCount.value)}` : ""}</span>
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
      <List lines={lines} total={all.length} />
    </section>
  );
}

function List({ lines, total }: { readonly lines: readonly Line[]; readonly total: number }) {
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
      <table class="list" data-testid="runs">
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Status</th>
            <th scope="col">Model</th>
            <th scope="col">Curve</th>
            <th scope="col" class="number">
              Loss or reward
            </th>
            <th scope="col" class="number">
              Steps
            </th>
            <th scope="col" class="number">
              Tokens
            </th>
            <th scope="col" class="number">
              Last used
            </th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <Row key={line.key} line={line} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ line }: { readonly line: Line }) {
  return (
    <tr>
      <th scope="row">
        <a href={line.href}>{oneLine(line.name, 80)}</a>
        {line.detail === "" ? null : <small>{oneLine(line.detail, 60)}</small>}
        <span class="tags">
          {line.tags.slice(0, maxTags).map((tag) => (
            <span key={tag} class="tag">
              {oneLine(tag, 40)}
            </span>
          ))}
        </span>
      </th>
      <td>
        <Status status={line.status} />
        {line.status === "waiting" && line.reason !== undefined ? <small>{oneLine(line.reason, 90)}</small> : null}
      </td>
      <td>{oneLine(line.model, 48)}</td>
      <td>
        <Sparkline values={line.outline} label={`${line.metric}, now ${formatNumber(line.value)}`} />
      </td>
      <td class="number" data-label={line.metric === "" ? "Loss" : "Value"}>
        {formatNumber(line.value)}
        {line.metric === "" || line.metric === "loss" ? null : <small>{oneLine(line.metric, 32)}</small>}
      </td>
      <td class="number" data-label="Steps">
        {formatCount(line.steps)}
      </td>
      <td class="number" data-label="Tokens">
        {line.tokens === undefined ? "–" : formatCount(line.tokens)}
      </td>
      <td class="number" data-label="Last used">
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
          export TINKER_BASE_URL={location.origin} TINKER_API_KEY=tml-…{"\n"}tinklet train data.jsonl
        </pre>
      </>
    ) : (
      <p>
        The folders contain no <code>metrics.jsonl</code>. Pass a run folder, or a folder that contains run folders.
      </p>
    )}
  </Notice>
);
