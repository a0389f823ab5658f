/** The first examples of a supervised run as the model sees them, each token coloured by its weight in the loss. Loaded when opened. */
import type { RunFileRow } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Notice } from "../parts.tsx";
import { numbersOf } from "../run-rows.ts";
import { problemText } from "../store.ts";
import { loadVocabulary, type Vocabulary, weightColour } from "../tokens.ts";
import { TokenTexts } from "./token-texts.tsx";

const maxRows = 50;

export function TrainingData(props: {
  readonly folderId: string;
  readonly file: string;
  readonly model: string | undefined;
}) {
  const { folderId, file, model } = props;
  const [isOpen, setOpen] = useState(false);
  const [rows, setRows] = useState<readonly RunFileRow[]>();
  const [vocabulary, setVocabulary] = useState<Vocabulary>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    if (!isOpen) return;
    call("getRollouts", { folderId, file, offset: 0, limit: maxRows }).then(
      (found) => setRows(found.rows),
      (error: unknown) => setProblem(problemText(error)),
    );
    if (model !== undefined) void loadVocabulary(model).then(setVocabulary);
  }, [isOpen, folderId, file, model]);
  return (
    <details class="panel" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Training data, as the model sees it</summary>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {rows === undefined ? null : (
        <>
          <p class="soft">Coloured tokens have a weight in the loss; the others are only context.</p>
          <ol class="turns" data-testid="training-data">
            {rows.map((row, i) => (
              <li key={i}>
                <Sequence row={row} name={`${i + 1}`} vocabulary={vocabulary} />
              </li>
            ))}
          </ol>
        </>
      )}
    </details>
  );
}

function Sequence(props: {
  readonly row: RunFileRow;
  readonly name: string;
  readonly vocabulary: Vocabulary | undefined;
}) {
  const weights = numbersOf(props.row["weights"]);
  const largest = weights.reduce((most, weight) => Math.max(weight, most), 0);
  const lookOf = (i: number) => {
    const weight = weights[i] ?? 0;
    return { colour: weightColour(weight, largest), tooltip: `, weight ${formatNumber(weight)}` };
  };
  return (
    <TokenTexts
      name={props.name}
      tokens={numbersOf(props.row["tokens"])}
      vocabulary={props.vocabulary}
      lookOf={lookOf}
    />
  );
}
