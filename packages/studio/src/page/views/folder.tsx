/** A run folder: its metrics, configuration, checkpoints, timing and rollouts. */

import type { RunFolderResponse } from "@tinklet/wire";
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../api.ts";
import { Charts } from "../charts.tsx";
import { formatAge, formatCount, formatDuration } from "../format.ts";
import { ComparePicker, maxCompared, Notice, Status, Tile } from "../parts.tsx";
import { comparedWith, placeUrl, replacePlace } from "../router.ts";
import { spansOf } from "../run-rows.ts";
import { folderCurves, joinMetrics } from "../series.ts";
import { folders, now, problemText } from "../store.ts";
import { oneLine } from "../text.ts";
import { Config } from "./config.tsx";
import { Rollouts } from "./rollouts.tsx";
import { TrainingData } from "./training-data.tsx";

const everyMs = 2000;

/** Loads the displayed folders and polls them every two seconds; also returns the last error. */
function useFolders(ids: readonly string[]): [ReadonlyMap<string, RunFolderResponse>, string | undefined] {
  const [all, setAll] = useState<ReadonlyMap<string, RunFolderResponse>>(new Map());
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    let isOver = false;
    const known = new Map<string, number>();
    const load = async (folderId: string): Promise<void> => {
      const had = known.get(folderId) ?? 0;
      if (document.hidden && had > 0) return;
      try {
        const later = await call("getRunFolder", { folderId, after: had });
        if (isOver) return;
        const has = later.folder.rows;
        // A restarted run has fewer rows than before.
        const isAnew = has < had;
        known.set(folderId, isAnew ? 0 : has);
        setAll((before) => {
          const old = had === 0 || isAnew ? undefined : before.get(folderId);
          // Keep the same objects if there are no new rows, so that charts are not redrawn.
          const metrics =
            old === undefined
              ? later.metrics
              : has === had
                ? old.metrics
                : joinMetrics(old.metrics, had, later.metrics, has - had);
          return new Map(before).set(folderId, { ...later, metrics });
        });
        setProblem(undefined);
        if (isAnew) await load(folderId);
      } catch (error) {
        if (!isOver) setProblem(problemText(error));
      }
    };
    const loadAll = () => {
      for (const id of ids) void load(id);
    };
    setAll((before) => new Map([...before].filter(([id]) => ids.includes(id))));
    loadAll();
    const timer = setInterval(loadAll, everyMs);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [ids.join(",")]);
  return [all, problem];
}

export function Folder({ folderId }: { readonly folderId: string }) {
  const compared = comparedWith(folderId);
  const ids = [folderId, ...compared].slice(0, maxCompared);
  const [all, problem] = useFolders(ids);
  const shown = ids.flatMap((id) => all.get(id) ?? []);
  const curves = useMemo(
    () =>
      shown.map(({ folder, metrics }) => folderCurves(folder.folderId, oneLine(folder.name, 40), metrics, folder.rows)),
    shown.flatMap(({ folder, metrics }): unknown[] => [folder.folderId, metrics]),
  );
  const found = all.get(folderId);
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
        <Tile name="Rollout files" value={formatCount(folder.rollouts.length)} />
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
      <ComparePicker
        plural="folders"
        others={folders.value
          .filter((one) => one.folderId !== folderId)
          .map(({ folderId: id, name }) => ({ id, name }))}
        compared={compared}
        onChange={(chosen) => replacePlace(placeUrl(["folders", folderId], { compare: chosen.join(",") }))}
      />
      <Charts curves={curves} />
      {folder.rollouts.length === 0 ? null : (
        <Rollouts folderId={folderId} files={folder.rollouts} model={folder.model} />
      )}
      {folder.data[0] === undefined ? null : (
        <TrainingData folderId={folderId} file={folder.data[0]} model={folder.model} />
      )}
      <Config
        runs={shown.map((one) => ({
          key: one.folder.folderId,
          name: oneLine(one.folder.name, 40),
          config: one.folder.config,
        }))}
      />
      <Timeline timing={found.timing} />
      <Saved checkpoints={found.checkpoints} />
    </section>
  );
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
      <summary>Time by phase, last {steps.length} steps</summary>
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
                    {oneLine(span.name, 40)}
                    {span.count > 1 ? ` ×${span.count}` : ""} {formatDuration(span.end - span.start)}
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
