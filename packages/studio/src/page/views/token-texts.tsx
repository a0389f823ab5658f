/** A sequence of coloured tokens: as text if the vocabulary is known, otherwise or on request as ids. */
import { useState } from "preact/hooks";
import { plainText } from "../text.ts";
import type { Vocabulary } from "../tokens.ts";

/** Tokens that are shown initially. */
const firstTokens = 400;

export function TokenTexts(props: {
  readonly name: string;
  readonly tokens: readonly number[];
  readonly vocabulary: Vocabulary | undefined;
  /** CSS class and tooltip of the i-th token. */
  readonly lookOf: (i: number) => { readonly colour: string; readonly tooltip: string };
}) {
  const { name, tokens, vocabulary, lookOf } = props;
  const [isRaw, setRaw] = useState(false);
  const [shown, setShown] = useState(firstTokens);
  const isNumbers = isRaw || vocabulary === undefined;
  return (
    <div class="log tokens" data-testid="tokens">
      <strong>{name}</strong>
      <p class={isNumbers ? "raw" : ""} dir="auto">
        {tokens.slice(0, shown).map((token, i) => {
          const { colour, tooltip } = lookOf(i);
          const text = isNumbers ? undefined : vocabulary.get(token);
          return (
            <span key={i} class={`token ${colour}`} title={`${token}${tooltip}`}>
              {text === undefined ? `${token} ` : plainText(text.slice(0, 200))}
            </span>
          );
        })}
      </p>
      {tokens.length > shown ? (
        <button type="button" class="quiet" onClick={() => setShown(shown + 5000)}>
          Show more of {tokens.length.toLocaleString("en")} tokens
        </button>
      ) : null}
      {vocabulary === undefined ? null : (
        <button type="button" class="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          Raw tokens
        </button>
      )}
    </div>
  );
}
