/** What only a run folder has: where the time of a step goes, and the checkpoints that it names. */
import type { RunFolderResponse } from "@tinklet/wire";
import { formatDuration } from "../format.ts";
import { spansOf } from "../run-rows.ts";
import { oneLine } from "../text.ts";

const shownSteps = 12;

export function Timeline({ timing }: { readonly timing: RunFolderResponse["timing"] }) {
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

export function Saved({ checkpoints }: { readonly checkpoints: RunFolderResponse["checkpoints"] }) {
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
