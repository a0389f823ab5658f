/** One run or a comparison of several: live charts, configuration and its differences, events, and why the run is waiting. */
import type { JsonValue, RunStepsResponse } from "@tinklet/wire";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Charts } from "../charts.tsx";
import { formatAge, formatCount, formatDuration, formatNumber, formatTime } from "../format.ts";
import { ComparePicker, CopyButton, maxCompared, Notice, Status, Tile } from "../parts.tsx";
import { comparedWith, placeUrl, replacePlace } from "../router.ts";
import { stepCurves } from "../series.ts";
import { curves, now, runs, watchRun } from "../store.ts";
import { oneLine } from "../text.ts";
import { Config } from "./config.tsx";
import { runName } from "./runs.tsx";

export function Run({ runId }: { readonly runId: string }) {
  const compared = comparedWith(runId);
  const shown = [runId, ...compared].slice(0, maxCompared);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    setProblem(undefined);
    const ends = shown.map((id) => watchRun(id, setProblem));
    return () => {
      for (const end of ends) end();
    };
  }, [shown.join(",")]);
  const found = shown.flatMap((id) => curves.value.get(id) ?? []);
  const drawn = useMemo(
    () => found.map((one) => stepCurves(one.run.runId, oneLine(runName(one.run), 40), one.steps)),
    found.flatMap(({ steps, run }): unknown[] => [steps, runName(run)]),
  );
  const main = curves.value.get(runId);
  if (problem !== undefined && main === undefined) {
    return (
      <Notice kind="problem" title={problem}>
        <p>
          <a href={placeUrl(["runs"])}>All runs</a>
        </p>
      </Notice>
    );
  }
  if (main === undefined) return <Notice kind="loading" title="Loading the run …" />;
  const { run } = main;
  return (
    <section aria-labelledby="title">
      <p class="crumbs">
        <a href={placeUrl(["runs"])}>Runs</a>
      </p>
      <div class="head">
        <h1 id="title">{oneLine(runName(run), 80)}</h1>
        <Status status={run.status} />
        <CopyButton text={run.runId} label="Copy id" />
      </div>
      <p class="soft">
        {oneLine(run.baseModel, 80)} · LoRA rank {run.loraRank} · last used {formatAge(run.lastRequestAt, now.value)}
      </p>
      {run.reason === undefined || run.status === "idle" ? null : (
        <p class="explain" role="status">
          <strong>{run.status === "failed" ? "Failed: " : "Right now: "}</strong>
          {oneLine(run.reason, 400)}
        </p>
      )}
      <Tiles main={main} />
      <ComparePicker
        plural="runs"
        others={(runs.value ?? [])
          .filter((one) => one.runId !== runId && (one.steps > 0 || compared.includes(one.runId)))
          .map((one) => ({ id: one.runId, name: runName(one), detail: `loss ${formatNumber(one.loss)}` }))}
        compared={compared}
        onChange={(chosen) => replacePlace(placeUrl(["runs", runId], { compare: chosen.join(",") }))}
      />
      <Charts curves={drawn} />
      <Config
        runs={found.map((one) => ({ key: one.run.runId, name: oneLine(runName(one.run), 40), config: configOf(one) }))}
      />
      <Events events={main.events} />
    </section>
  );
}

const configOf = ({ config, run }: RunStepsResponse): Readonly<Record<string, JsonValue>> => ({
  ...config,
  ...(run.tags.length > 0 ? { tags: run.tags.join(", ") } : {}),
  ...(Object.keys(run.userMetadata).length > 0 ? { user_metadata: { ...run.userMetadata } } : {}),
});

function Tiles({ main: { run, steps } }: { readonly main: RunStepsResponse }) {
  const last = steps.step.length - 1;
  const from = Math.max(0, last - 20);
  const seconds = last > from ? (steps.time[last]! - steps.time[from]!) / 1000 : 0;
  const speed = seconds > 0 ? (steps.tokens[last]! - steps.tokens[from]!) / seconds : undefined;
  const perStep = seconds > 0 ? seconds / (last - from) : undefined;
  return (
    <dl class="tiles">
      <Tile name="Loss" value={formatNumber(run.loss)} detail="per weighted token" />
      <Tile
        name="Steps"
        value={formatCount(run.steps)}
        detail={perStep ? `${formatDuration(perStep)} each` : undefined}
      />
      <Tile
        name="Tokens"
        value={formatCount(run.tokens)}
        detail={speed ? `${formatCount(speed)} per second` : undefined}
      />
      <Tile name="Gradient norm" value={formatNumber(run.gradientNorm)} />
    </dl>
  );
}

function Events({ events }: { readonly events: RunStepsResponse["events"] }) {
  return (
    <details class="panel" open>
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
