/** The official cookbook's log of a step, as expandable sections. It contains texts of environments that do not put them into summaries. */
import type { StepLogEntry } from "@tinklet/wire";
import { useState } from "preact/hooks";
import { ForeignText } from "../parts.tsx";
import { oneLine } from "../text.ts";

/** Heading level of a rollout group; the step itself is level 1. */
const sectionLevel = 2;

interface Section {
  readonly title: string;
  readonly entries: readonly StepLogEntry[];
}

/** Splits a log at its second-level headings; the text before the first one is a general description and is dropped. */
export function sectionsOf(log: readonly StepLogEntry[]): Section[] {
  const sections: { title: string; entries: StepLogEntry[] }[] = [];
  for (const entry of log) {
    const isHeading = entry.text === "" && entry.level <= sectionLevel;
    if (isHeading && entry.level === sectionLevel) sections.push({ title: entry.name, entries: [] });
    else if (!isHeading) sections.at(-1)?.entries.push(entry);
  }
  return sections;
}

export function StepLog({ log }: { readonly log: readonly StepLogEntry[] }) {
  const sections = sectionsOf(log);
  if (sections.length === 0) return null;
  return (
    <>
      <h3>Log of the step</h3>
      <ul class="samples" data-testid="step-log">
        {sections.map((section, i) => (
          <LogSection key={i} number={i + 1} {...section} />
        ))}
      </ul>
    </>
  );
}

function LogSection({ number, title, entries }: Section & { readonly number: number }) {
  const [isOpen, setOpen] = useState(false);
  const preview = entries.find(({ text }) => text !== "")?.text ?? "";
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="tag">
            {oneLine(title, 60)} {number}
          </span>
          <span class="preview">{oneLine(preview, 140)}</span>
        </summary>
        {isOpen ? (
          <ol class="turns">
            {entries.map(({ level, name, text }, i) =>
              text === "" ? (
                <li key={i} class={`log-heading level-${Math.min(6, level)}`}>
                  {oneLine(name, 120)}
                </li>
              ) : (
                <li key={i} class="log">
                  {name === "" ? null : <strong>{oneLine(name, 60)}</strong>}
                  <ForeignText text={text} />
                </li>
              ),
            )}
          </ol>
        ) : null}
      </details>
    </li>
  );
}
