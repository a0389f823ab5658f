/** A model's answer: each token with its probability, and the most likely alternatives as bars. */
import { useState } from "preact/hooks";
import { oneLine, plainText } from "../text.ts";
import type { Token } from "./stream.ts";

export interface Answer {
  readonly state: "writing" | "done" | "failed";
  readonly tokens: readonly Token[];
  readonly problem?: string;
}

const percent = (logprob: number): string => `${(Math.exp(logprob) * 100).toFixed(1)} %`;
/** A token's text with visible spaces. */
const visible = (text: string): string =>
  JSON.stringify(oneLine(text, 40)).slice(1, -1).replace(/ /g, "\u00b7") || "\u2205";

interface Alternative {
  readonly text: string;
  readonly logprob: number;
  readonly isSampled: boolean;
}

/** The likeliest tokens at a place, with the sampled one, most likely first. */
export function alternativesOf({ text, logprob = Number.NEGATIVE_INFINITY, others = [] }: Token): Alternative[] {
  const rest = others.filter((other) => other.text !== text).map((other) => ({ ...other, isSampled: false }));
  return [{ text, logprob, isSampled: true }, ...rest].sort((a, b) => b.logprob - a.logprob);
}

/** A token's probability and the most likely alternatives, as text. */
function tokenSummary({ text, logprob, others = [] }: Token): string {
  const likeliest = others.map((other) => `${visible(other.text)} ${percent(other.logprob)}`).join(", ");
  return `${visible(text)} ${percent(logprob ?? 0)}; likeliest: ${likeliest}`;
}

export function AnswerView({ answer }: { readonly answer: Answer | undefined }) {
  const [hovered, setHovered] = useState<number>();
  const [pinned, setPinned] = useState<number>();
  if (answer === undefined) return <p class="soft answer">This model was not asked.</p>;
  const { tokens, state } = answer;
  const at = hovered ?? pinned;
  const pointed = at === undefined ? undefined : tokens[at];
  const onKey = (event: KeyboardEvent) => {
    const last = tokens.length - 1;
    const from = pinned ?? -1;
    const moves: Record<string, number | undefined> = {
      ArrowRight: Math.min(last, from + 1),
      ArrowLeft: Math.max(0, from - 1),
      Home: 0,
      End: last,
      Escape: undefined,
    };
    if (!(event.key in moves) || last < 0) return;
    event.preventDefault();
    setPinned(moves[event.key]);
  };
  return (
    <>
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls */}
      <div
        class="answer"
        role="group"
        aria-label="Answer; arrow keys show the probabilities of its tokens"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move between tokens
        tabIndex={0}
        aria-busy={state === "writing"}
        dir="auto"
        onMouseLeave={() => setHovered(undefined)}
        onKeyDown={onKey}
      >
        {tokens.map((token, i) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys of the answer do the same
          // biome-ignore lint/a11y/useKeyWithClickEvents: the arrow keys of the answer do the same
          <span
            key={i}
            class={
              token.logprob === undefined
                ? ""
                : `token sure-${Math.min(4, Math.floor(-token.logprob))}${i === pinned ? " pinned" : ""}`
            }
            title={token.logprob === undefined ? undefined : tokenSummary(token)}
            onMouseEnter={() => setHovered(i)}
            onClick={() => setPinned(i === pinned ? undefined : i)}
          >
            {plainText(token.text)}
          </span>
        ))}
        {state === "writing" ? <span class="caret" aria-hidden="true" /> : null}
      </div>
      {answer.problem === undefined ? null : (
        <p class="problem" role="alert">
          {oneLine(answer.problem, 400)}
        </p>
      )}
      <p class="soft count">
        {tokens.length} {tokens.length === 1 ? "token" : "tokens"}
      </p>
      {pointed?.logprob === undefined ? null : <Alternatives of={pointed} isLive={at === pinned} />}
      {/* Spoken once, when the answer is complete: a live region that grows would be spoken with each token. */}
      <p class="hidden" role="status">
        {state === "done" ? plainText(tokens.map(({ text }) => text).join("")).slice(0, 4000) : ""}
      </p>
    </>
  );
}

/** The probabilities of the tokens at one place, as bars. */
function Alternatives({ of, isLive }: { readonly of: Token; readonly isLive: boolean }) {
  return (
    <ul
      class="alternatives"
      aria-label={`Probabilities in place of ${visible(of.text)}`}
      aria-live={isLive ? "polite" : "off"}
    >
      {alternativesOf(of).map(({ text, logprob, isSampled }, i) => (
        <li key={i} class={isSampled ? "sampled" : ""}>
          <code>{visible(text)}</code>
          <span class="share" aria-hidden="true">
            <span style={{ width: `${Math.max(0.5, Math.exp(logprob) * 100)}%` }} />
          </span>
          <span class="number">{percent(logprob)}</span>
          {isSampled ? <span class="hidden"> (sampled)</span> : null}
        </li>
      ))}
    </ul>
  );
}
