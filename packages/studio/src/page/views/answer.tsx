/** A model's answer: each token with its probability and the most likely alternatives. */
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

/** A token's probability and the most likely alternatives, as text. */
function tokenSummary({ text, logprob, others = [] }: Token): string {
  const likeliest = others.map((other) => `${visible(other.text)} ${percent(other.logprob)}`).join(", ");
  return `${visible(text)} ${percent(logprob ?? 0)}; likeliest: ${likeliest}`;
}

export function AnswerView({ answer }: { readonly answer: Answer | undefined }) {
  const [at, setAt] = useState<number>();
  if (answer === undefined) return <p class="soft answer">The answer appears here as it is generated.</p>;
  const pointed = at === undefined ? undefined : answer.tokens[at];
  return (
    <>
      <p
        class="answer"
        aria-live="polite"
        aria-busy={answer.state === "writing"}
        dir="auto"
        onMouseLeave={() => setAt(undefined)}
      >
        {answer.tokens.map((token, i) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the information shown on hover is also in the token's title
          <span
            key={i}
            class={token.logprob === undefined ? "" : `token sure-${Math.min(4, Math.floor(-token.logprob))}`}
            title={token.logprob === undefined ? undefined : tokenSummary(token)}
            onMouseEnter={() => setAt(i)}
          >
            {plainText(token.text)}
          </span>
        ))}
        {answer.state === "writing" ? <span class="caret" aria-hidden="true" /> : null}
      </p>
      {answer.problem === undefined ? null : (
        <p class="problem" role="alert">
          {oneLine(answer.problem, 400)}
        </p>
      )}
      <p class="soft alternatives">
        {pointed?.logprob === undefined ? `${answer.tokens.length} tokens` : tokenSummary(pointed)}
      </p>
    </>
  );
}
