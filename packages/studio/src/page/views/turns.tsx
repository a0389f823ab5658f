/** The turns of a rollout: the logged text of each, and its tokens coloured by log-probability, advantage or KL. */
import type { RunFileRow } from "@tinklet/wire";
import { formatNumber } from "../format.ts";
import { ForeignText } from "../parts.tsx";
import { numberOf, numbersOf, textsOf } from "../run-rows.ts";
import { oneLine } from "../text.ts";
import { colourOf } from "../tokens.ts";
import type { TokenDisplay } from "./rollouts.tsx";
import { TokenTexts } from "./token-texts.tsx";

const shownTurns = 100;

export function Turns(props: {
  readonly steps: readonly RunFileRow[];
  readonly row: RunFileRow;
  readonly advantage: number;
  readonly look: TokenDisplay;
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

/** The sampled tokens of a turn. */
function Tokens(props: { readonly step: RunFileRow; readonly advantage: number; readonly look: TokenDisplay }) {
  const { step, advantage, look } = props;
  const tokens = numbersOf(step["ac_tokens"]);
  const logprobs = numbersOf(step["ac_logprobs"]);
  const trained = numbersOf(step["ac_train_logprobs"]);
  if (tokens.length === 0) return null;
  const lookOf = (i: number) => {
    const logprob = logprobs[i];
    const kl = logprob === undefined || trained[i] === undefined ? undefined : logprob - trained[i];
    const labelled = (name: string, value: number | undefined) =>
      value === undefined ? "" : `, ${name} ${formatNumber(value)}`;
    const tooltip = labelled("log-prob", logprob) + labelled("KL", kl) + labelled("advantage", advantage);
    return { colour: colourOf(look.colouring, { logprob, advantage, kl }), tooltip };
  };
  return <TokenTexts name="tokens" tokens={tokens} vocabulary={look.vocabulary} lookOf={lookOf} />;
}
