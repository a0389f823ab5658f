/** The turns of a sample: what was logged of each, and its tokens coloured by what the model or the training thought of them. */
import { useState } from "preact/hooks";
import type { RunFileRow } from "tinklet/wire";
import { formatNumber } from "../format.ts";
import { ForeignText } from "../parts.tsx";
import { numberOf, numbersOf, textsOf } from "../run-rows.ts";
import { oneLine, plainText } from "../text.ts";
import { colourOf } from "../tokens.ts";
import type { Look } from "./rollouts.tsx";

const shownTurns = 100;
/** Tokens of a turn that are shown before somebody asks for more. */
const firstTokens = 400;

export function Turns(props: {
  readonly steps: readonly RunFileRow[];
  readonly row: RunFileRow;
  readonly advantage: number;
  readonly look: Look;
}) {
  const { steps, row } = props;
  const conversation = ["prompt", "messages", "response", "text", "completion"].flatMap((key) =>
    row[key] === undefined ? [] : textsOf({ [key]: row[key] }),
  );
  return (
    <ol class="turns">
      {conversation.map(([key, text]) => (
        <li key={key}>
          <strong>{key}</strong>
          <ForeignText text={text} />
        </li>
      ))}
      {steps.slice(0, shownTurns).map((step, i) => (
        <li key={i}>
          <span class="soft">
            Turn {i + 1}: reward {formatNumber(numberOf(step["reward"]))}, {formatNumber(numberOf(step["ob_len"]))}{" "}
            tokens read, {formatNumber(numberOf(step["ac_len"]))} written
          </span>
          <Tokens step={step} advantage={props.advantage} look={props.look} />
          {[...textsOf(step["logs"]), ...textsOf(step["metrics"])].map(([key, text]) => (
            <div key={key} class="log">
              <strong>{oneLine(key, 60)}</strong>
              <ForeignText text={text} />
            </div>
          ))}
        </li>
      ))}
    </ol>
  );
}

/** The sampled tokens of a turn; as texts where the vocabulary is known, as numbers where it is not or where they are asked for. */
function Tokens(props: { readonly step: RunFileRow; readonly advantage: number; readonly look: Look }) {
  const { step, advantage, look } = props;
  const [isRaw, setRaw] = useState(false);
  const [shown, setShown] = useState(firstTokens);
  const tokens = numbersOf(step["ac_tokens"]);
  const logprobs = numbersOf(step["ac_logprobs"]);
  if (tokens.length === 0) return null;
  const isNumbers = isRaw || look.vocabulary === undefined;
  return (
    <div class="log tokens" data-testid="tokens">
      <strong>tokens</strong>
      <p class={isNumbers ? "raw" : ""} dir="auto">
        {tokens.slice(0, shown).map((token, i) => {
          const text = look.vocabulary?.get(token);
          const logprob = logprobs[i];
          const told = `${token}${logprob === undefined ? "" : `, log-prob ${formatNumber(logprob)}`}, advantage ${formatNumber(advantage)}`;
          return (
            <span key={i} class={`token ${colourOf(look.colouring, logprob, advantage)}`} title={told}>
              {isNumbers || text === undefined ? `${token} ` : plainText(text.slice(0, 200))}
            </span>
          );
        })}
      </p>
      {tokens.length > shown ? (
        <button type="button" class="quiet" onClick={() => setShown(shown + 5000)}>
          Show more of {tokens.length.toLocaleString("en")} tokens
        </button>
      ) : null}
      {look.vocabulary === undefined ? null : (
        <button type="button" class="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          Raw tokens
        </button>
      )}
    </div>
  );
}
