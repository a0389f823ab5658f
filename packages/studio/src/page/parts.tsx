/** Small components shared by several views. */
import type { RunStatus } from "@tinklet/wire";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { oneLine, shownLength, shownText } from "./text.ts";

const statusWords: Record<RunStatus | "folder", string> = {
  training: "Training",
  waiting: "Waiting",
  idle: "Idle",
  done: "Done",
  failed: "Failed",
  folder: "Folder",
};

export const Status = ({ status }: { readonly status: RunStatus | "folder" }) => (
  <span class={`status status-${status}`}>{statusWords[status]}</span>
);

/** A message for an empty, loading or failed view, with a suggestion. */
export function Notice(props: {
  readonly kind: "empty" | "loading" | "problem";
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class={`notice notice-${props.kind}`} role={props.kind === "problem" ? "alert" : "status"}>
      <p class="notice-title">{props.title}</p>
      {props.children}
    </div>
  );
}

/** A table without links or buttons that may be wider than the window: the keyboard scrolls it. */
export const WideTable = (props: { readonly name: string; readonly children: ComponentChildren }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
  <section class="scroll" aria-label={props.name} tabIndex={0}>
    {props.children}
  </section>
);

export const Tile = (props: {
  readonly name: string;
  readonly value: string;
  readonly detail?: string | undefined;
  /** Whether the value is good news; shown by its colour. */
  readonly mood?: "good" | "bad" | undefined;
}) => (
  <div class="tile">
    <dt>{props.name}</dt>
    <dd class={props.mood === undefined ? "" : `mood-${props.mood}`}>
      {props.value}
      {props.detail === undefined ? null : <small>{props.detail}</small>}
    </dd>
  </div>
);

export function Sparkline({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  if (values.length < 2) return <span class="soft">–</span>;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const y = (value: number) => 22 - ((value - low) / (high - low || 1)) * 20;
  const points = values.map((value, i) => `${((i / (values.length - 1)) * 96 + 2).toFixed(1)},${y(value).toFixed(1)}`);
  return (
    <svg class="sparkline" viewBox="0 0 100 24" role="img" aria-label={label}>
      <polyline points={points.join(" ")} />
    </svg>
  );
}

/** Copies a text and briefly confirms it. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [state, setState] = useState<"ready" | "copied" | "failed">("ready");
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setState("copied"),
      () => setState("failed"),
    );
  useEffect(() => {
    if (state === "ready") return;
    const timer = setTimeout(() => setState("ready"), 2000);
    return () => clearTimeout(timer);
  }, [state]);
  const caption = { ready: label, copied: "Copied", failed: "The browser does not allow copying" }[state];
  return (
    <button type="button" class="quiet" onClick={copy} title={text.slice(0, 300)}>
      {caption}
    </button>
  );
}

/** Untrusted text, truncated to `length` characters. */
export function ForeignText({ text, length = shownLength }: { readonly text: string; readonly length?: number }) {
  const [shown, setShown] = useState(length);
  const { text: part, isWhole } = shownText(text, shown);
  return (
    <>
      <span class="foreign" dir="auto">
        {part}
      </span>
      {isWhole ? null : (
        <button type="button" class="quiet" onClick={() => setShown(shown + 50_000)}>
          Show more of {text.length.toLocaleString("en")} characters
        </button>
      )}
    </>
  );
}

/** A confirmation dialog for an action that cannot be undone. */
export function Confirm(props: {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly action: string;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onClose={props.onClose}>
      <h2 id="confirm-title">{props.title}</h2>
      {props.children}
      <div class="row end">
        <button type="button" onClick={() => dialog.current?.close()}>
          Keep
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            props.onConfirm();
            dialog.current?.close();
          }}
        >
          {props.action}
        </button>
      </div>
    </dialog>
  );
}

/** A choice between a few options. */
export function Choice<T extends string>(props: {
  readonly label: string;
  readonly value: T;
  readonly options: readonly (readonly [T, string])[];
  readonly onChange: (value: T) => void;
}) {
  return (
    <fieldset class="choice">
      <legend class="hidden">{props.label}</legend>
      {props.options.map(([value, word]) => (
        <label key={value} class={value === props.value ? "chosen" : ""}>
          <input
            type="radio"
            name={props.label}
            checked={value === props.value}
            onChange={() => props.onChange(value)}
          />
          {word}
        </label>
      ))}
    </fieldset>
  );
}

/** Maximum runs in one chart. */
export const maxCompared = 6;

/** Selects other runs to compare with the current one. */
export function ComparePicker(props: {
  readonly others: readonly { readonly id: string; readonly name: string; readonly detail?: string }[];
  readonly compared: readonly string[];
  readonly onChange: (compared: readonly string[]) => void;
}) {
  const { others, compared, onChange } = props;
  if (others.length === 0) return null;
  return (
    <details class="panel" open={compared.length > 0}>
      <summary>
        Compare with other runs
        {compared.length > 0 ? ` (${compared.length})` : ""}
      </summary>
      <ul class="choices">
        {others.slice(0, 100).map(({ id, name, detail }) => (
          <li key={id}>
            <label>
              <input
                type="checkbox"
                checked={compared.includes(id)}
                disabled={!compared.includes(id) && compared.length >= maxCompared - 1}
                onChange={(event) =>
                  onChange(event.currentTarget.checked ? [...compared, id] : compared.filter((one) => one !== id))
                }
              />{" "}
              {oneLine(name, 60)} {detail === undefined ? null : <span class="soft">{detail}</span>}
            </label>
          </li>
        ))}
      </ul>
    </details>
  );
}
