/** One run, or a comparison of several: whether it learns and how good it is, then everything else that is known of it. */
import type { JsonValue, RunStepsResponse } from "@tinklet/wire";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Charts } from "../charts.tsx";
import { formatAge, formatNumber, formatTime } from "../format.ts";
import { notesOf, wordOf } from "../outcome.ts";
import { ComparePicker, CopyButton, maxCompared, Notice, Status } from "../parts.tsx";
import { comparedWith, placeUrl, replacePlace } from "../router.ts";
import { curvesOf, type RunData } from "../run-figures.ts";
import { linesOfRuns, reasonOf, runName, sourceOf } from "../run-lines.ts";
import { curves, folders, now, runs, runsProblem, watchRun } from "../store.ts";
import { oneLine } from "../text.ts";
import { useFolders } from "../use-folders.ts";
import { BeforeAfter } from "./before-after.tsx";
import { Config } from "./config.tsx";
import { Saved, Timeline } from "./folder-parts.tsx";
import { Notes, OutcomeTiles } from "./outcome-tiles.tsx";
import { Rollouts } from "./rollouts.tsx";
import { TrainingData } from "./training-data.tsx";

/** Everything known of the runs and folders with these ids; also returns the last error. */
function useRunData(keys: readonly string[], isFolder: boolean): [readonly RunData[], string | undefined] {
  const [problem, setProblem] = useState<string>();
  // Without the lists it is not known which folder belongs to a run.
  const isReady = runs.value !== undefined || runsProblem.value !== undefined;
  const sources = isReady ? keys.map((key) => sourceOf(key, runs.value ?? [], folders.value, isFolder)) : [];
  const runIds = sources.flatMap(({ runId }) => runId ?? []);
  const folderIds = sources.flatMap(({ folderId }) => folderId ?? []);
  useEffect(() => {
    setProblem(undefined);
    const ends = runIds.map((id) => watchRun(id, setProblem));
    return () => {
      for (const end of ends) end();
    };
  }, [runIds.join(",")]);
  const [found, folderProblem] = useFolders(folderIds);
  const data = sources.flatMap(({ key, runId, folderId }): RunData[] => {
    const run = runId === undefined ? undefined : curves.value.get(runId);
    const folder = folderId === undefined ? undefined : found.get(folderId);
    if (run === undefined && folder === undefined) return [];
    const name = run === undefined ? folder!.folder.name : runName(run.run);
    return [{ key, name: oneLine(name, 60), run, folder }];
  });
  return [data, problem ?? folderProblem];
}

export function Run({ id, isFolder }: { readonly id: string; readonly isFolder: boolean }) {
  const compared = comparedWith(id);
  const [shown, problem] = useRunData([id, ...compared].slice(0, maxCompared), isFolder);
  const drawn = useMemo(
    () => shown.map(curvesOf),
    shown.flatMap(({ key, name, run, folder }): unknown[] => [key, name, run?.steps, folder?.metrics]),
  );
  const main = shown.find(({ key }) => key === id);
  const isOver = main?.run?.run.status === "done";
  const notes = useMemo(() => (drawn[0]?.key === id ? notesOf(drawn[0], isOver) : []), [drawn, id, isOver]);
  if (main === undefined) {
    return problem === undefined ? (
      <Notice kind="loading" title="Loading the run …" />
    ) : (
      <Notice kind="problem" title={problem}>
        <p>
          <a href={placeUrl(["runs"])}>All runs</a>
        </p>
      </Notice>
    );
  }
  const { run: steps, folder } = main;
  const run = steps?.run;
  const model = run?.baseModel ?? folder?.folder.model;
  const reason = run && reasonOf(run);
  return (
    <section aria-labelledby="title">
      <p class="crumbs">
        <a href={placeUrl(["runs"])}>Runs</a>
      </p>
      <div class="head">
        <h1 id="title">{main.name}</h1>
        <Status status={run?.status ?? "folder"} />
        {run === undefined ? null : <CopyButton text={run.runId} label="Copy id" />}
      </div>
      <p class="soft facts">
        {model === undefined ? null : <span>{oneLine(model, 80)}</span>}
        {run === undefined ? null : <span>LoRA rank {run.loraRank}</span>}
        {folder === undefined || folder.folder.name === main.name ? null : (
          <span>folder {oneLine(folder.folder.name, 80)}</span>
        )}
        <span>last used {formatAge(run?.lastRequestAt ?? folder!.folder.updatedAt, now.value)}</span>
      </p>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {reason === undefined ? null : (
        <p class={run?.status === "failed" ? "explain explain-failed" : "explain"} role="status">
          <strong>{run?.status === "failed" ? "Failed: " : "Waiting: "}</strong>
          {oneLine(reason, 400)}
        </p>
      )}
      <OutcomeTiles data={main} curves={drawn[0]!} />
      <Notes notes={notes} />
      <Charts curves={drawn} notes={notes}>
        <BeforeAfter data={main} />
      </Charts>
      <ComparePicker
        others={linesOfRuns(runs.value ?? [], folders.value)
          .filter(
            ({ key, steps: count }) =>
              key !== main.key && key !== folder?.folder.folderId && (count > 0 || compared.includes(key)),
          )
          .map(({ key, name, metric, value }) => ({
            id: key,
            name,
            detail: `${oneLine(wordOf(metric), 40)} ${formatNumber(value)}`,
          }))}
        compared={compared}
        onChange={(chosen) =>
          replacePlace(placeUrl([isFolder ? "folders" : "runs", id], { compare: chosen.join(",") }))
        }
      />
      {folder === undefined ? null : <FolderParts key={folder.folder.folderId} folder={folder} />}
      <Config runs={shown.map((one) => ({ key: one.key, name: oneLine(one.name, 40), config: configOf(one) }))} />
      {folder === undefined ? null : (
        <>
          <Timeline timing={folder.timing} />
          <Saved checkpoints={folder.checkpoints} />
        </>
      )}
      {steps === undefined ? null : <Events events={steps.events} />}
    </section>
  );
}

function FolderParts({ folder: { folder } }: { readonly folder: NonNullable<RunData["folder"]> }) {
  const [file] = folder.data;
  return (
    <>
      {folder.rollouts.length === 0 ? null : (
        <Rollouts folderId={folder.folderId} files={folder.rollouts} model={folder.model} />
      )}
      {file === undefined ? null : <TrainingData folderId={folder.folderId} file={file} model={folder.model} />}
    </>
  );
}

/** The configuration that the loop recorded, and what the server was asked for. */
function configOf({ run, folder }: RunData): Readonly<Record<string, JsonValue>> {
  if (run === undefined) return folder?.folder.config ?? {};
  const {
    config,
    run: { tags, userMetadata },
  } = run;
  return {
    ...(folder?.folder.config ?? config),
    ...(tags.length > 0 ? { tags: tags.join(", ") } : {}),
    ...(Object.keys(userMetadata).length > 0 ? { user_metadata: { ...userMetadata } } : {}),
  };
}

function Events({ events }: { readonly events: RunStepsResponse["events"] }) {
  const hasFailure = events.some(({ kind }) => kind === "failed" || kind === "refused");
  return (
    <details class="panel" open={hasFailure}>
      <summary>Events ({events.length})</summary>
      <ul class="events">
        {events.slice(0, 100).map((event) => (
          <li key={`${event.time.getTime()} ${event.kind} ${event.detail}`}>
            <time dateTime={event.time.toISOString()}>{formatTime(event.time)}</time>
            <span class={`event event-${event.kind === "failed" || event.kind === "refused" ? "failed" : "other"}`}>
              {oneLine(event.kind, 24)}
            </span>
            <span class="foreign">{oneLine(event.detail, 300)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
