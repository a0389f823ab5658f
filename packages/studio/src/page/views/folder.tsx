/** A run folder: its metrics, configuration, checkpoints, timing and rollouts. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { RunFolderResponse } from "tinklet/wire";
import { call } from "../api.ts";
import { Charts } from "../charts.tsx";
import { formatAge, formatCount, formatDuration } from "../format.ts";
import { Notice, Status, Tile } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { folderCurves, joinMetrics } from "../series.ts";
import { now, problemText } from "../store.ts";
import { oneLine } from "../text.ts";
import { Config } from "./config.tsx";
import { Rollouts } from "./rollouts.tsx";

const everyMs = 2000;

export function Folder({ folderId }: { readonly folderId: string }) {
  const [found, setFound] = useState<RunFolderResponse>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    let rows = 0;
    let isOver = false;
    const load = async () => {
      if (document.hidden && rows > 0) return;
      try {
        const later = await call("getRunFolder", { folderId, after: rows });
        if (isOver) return;
        // A run that was begun anew has fewer rows than before.
        const isAnew = later.folder.rows < rows;
        const [had, has] = [rows, later.folder.rows];
        rows = isAnew ? 0 : has;
        setFound((before) => {
          if (before === undefined || isAnew) return later;
          // The same columns, so that charts without a new point are not drawn again.
          const metrics = has === had ? before.metrics : joinMetrics(before.metrics, had, later.metrics, has - had);
          return { ...later, metrics };
        });
        setProblem(undefined);
        if (isAnew) void load();
      } catch (error) {
        setProblem(problemText(error));
      }
    };
    setFound(undefined);
    void load();
    const timer = setInterval(() => void load(), everyMs);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [folderId]);
  const curves = useMemo(
    () =>
      found === undefined
        ? []
        : [folderCurves(folderId, oneLine(found.folder.name, 40), found.metrics, found.folder.rows)],
    [folderId, found?.metrics],
  );
  if (found === undefined) {
    return problem === undefined ? (
      <Notice kind="loading" title="Reading the folder …" />
    ) : (
      <Notice kind="problem" title={problem}>
        <p>
          <a href={placeUrl(["runs"])}>All runs</a>
        </p>
      </Notice>
    );
  }
  const { folder } = found;
  return (
    <section aria-labelledby="title">
      <p class="crumbs">
        <a href={placeUrl(["runs"])}>Runs</a>
      </p>
      <div class="head">
        <h1 id="title">{oneLine(folder.name, 80)}</h1>
        <Status status="folder" />
      </div>
      <p class="soft">written {formatAge(folder.updatedAt, now.value)}</p>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      <dl class="tiles">
        <Tile name="Rows" value={formatCount(folder.rows)} />
        <Tile name="Checkpoints" value={formatCount(found.checkpoints.length)} />
        <Tile name="Files of rollouts" value={formatCount(folder.rollouts.length)} />
      </dl>
      {folder.runIds.length === 0 ? null : (
        <p class="soft">
          Trained as{" "}
          {folder.runIds.map((id) => (
            <a key={id} href={placeUrl(["runs", id])}>
              {oneLine(id, 60)}
            </a>
          ))}
        </p>
      )}
      <Charts curves={curves} />
      {folder.rollouts.length === 0 ? null : <Rollouts folderId={folderId} files={folder.rollouts} />}
      <Config runs={[{ key: folderId, name: oneLine(folder.name, 40), config: folder.config }]} />
      <Timeline timing={found.timing} />
      <Saved checkpoints={found.checkpoints} />
    </section>
  );
}

interface Span {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** Spans of a step, as the official cookbook and ours write them. */
function spansOf(row: RunFolderResponse["timing"][number]): Span[] {
  const spans = Array.isArray(row["spans"]) ? row["spans"] : [];
  return spans.flatMap((span) => {
    const { name, wall_start: start, wall_end: end } = span as Record<string, unknown>;
    return typeof name === "string" && typeof start === "number" && typeof end === "number" && end >= start
      ? [{ name, start, end }]
      : [];
  });
}

const shownSteps = 12;

function Timeline({ timing }: { readonly timing: RunFolderResponse["timing"] }) {
  const steps = timing.slice(-shownSteps).map((row) => ({ step: row["step"], spans: spansOf(row) }));
  const longest = Math.max(
    0,
    ...steps.map(
      ({ spans }) => Math.max(0, ...spans.map(({ end }) => end)) - Math.min(...spans.map(({ start }) => start)),
    ),
  );
  if (longest <= 0) return null;
  return (
    <details class="panel">
      <summary>Where the time went, last {steps.length} steps</summary>
      <ol class="timeline">
        {steps.map(({ step, spans }) => {
          const begin = Math.min(...spans.map(({ start }) => start));
          return (
            <li key={String(step)}>
              <span class="soft">step {String(step)}</span>
              <span class="lanes">
                {spans.slice(0, 40).map((span, i) => (
                  <span
                    key={i}
                    class={`span span-${i % 6}`}
                    style={{
                      left: `${((span.start - begin) / longest) * 100}%`,
                      width: `${Math.max(0.5, ((span.end - span.start) / longest) * 100)}%`,
                    }}
                    title={`${oneLine(span.name, 60)}: ${formatDuration(span.end - span.start)}`}
                  >
                    {oneLine(span.name, 40)} {formatDuration(span.end - span.start)}
                  </span>
                ))}
              </span>
            </li>
          );
        })}
      </ol>
    </details>
  );
}

function Saved({ checkpoints }: { readonly checkpoints: RunFolderResponse["checkpoints"] }) {
  if (checkpoints.length === 0) return null;
  return (
    <details class="panel">
      <summary>Checkpoints ({checkpoints.length})</summary>
      <ul class="events">
        {checkpoints.slice(-100).map((row, i) => (
          <li key={i}>
            <span class="event event-other">{oneLine(String(row["name"] ?? "–"), 40)}</span>
            <span class="foreign">{oneLine(String(row["state_path"] ?? row["sampler_path"] ?? ""), 200)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
