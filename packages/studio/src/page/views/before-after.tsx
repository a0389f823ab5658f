/** What the model wrote at the first recorded step and what it writes at the last, next to each other; or a link to ask both. */
import type { RunFolderAnswer } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { formatNumber } from "../format.ts";
import { ForeignText } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import type { RunData } from "../run-figures.ts";
import { type Answered, answersOf, firstAndLast, pairAnswers } from "../run-rows.ts";
import { session } from "../store.ts";
import { oneLine } from "../text.ts";
import { loadVocabulary, type Vocabulary } from "../tokens.ts";

/** Samples read of each file. */
const maxRows = 200;
const shownPairs = 3;
const shownCharacters = 600;

const stepOf = (file: string): string => String(Number(/iteration_(\d+)/.exec(file)?.[1] ?? 0));

export function BeforeAfter({ data }: { readonly data: RunData }) {
  const folder = data.folder?.folder;
  const ends = folder && firstAndLast(folder.rollouts);
  const sampler = samplerOf(data);
  const canAsk = session.value?.has_models === true && data.run !== undefined && sampler !== undefined;
  const recorded = data.folder?.result?.answers ?? [];
  if (ends === undefined && recorded.length === 0 && !canAsk) return null;
  return (
    <section class="panel" aria-labelledby="before-after-title">
      <div class="head">
        <h2 id="before-after-title">Before and after</h2>
        {canAsk ? (
          <a
            class="button quiet"
            href={`${placeUrl(["playground"])}?model=${encodeURIComponent(data.run!.run.baseModel)}&model=${encodeURIComponent(sampler)}`}
          >
            Chat with both
          </a>
        ) : null}
      </div>
      {recorded.length > 0 ? (
        <RecordedAnswers answers={recorded} />
      ) : folder === undefined || ends === undefined ? (
        <p class="soft">This run recorded no answers. Chat with the base model and the trained one to compare them.</p>
      ) : (
        <Pairs key={ends.join(" ")} folderId={folder.folderId} ends={ends} model={folder.model} />
      )}
    </section>
  );
}

/** The answers that the run sampled at its start and its end. */
function RecordedAnswers({ answers }: { readonly answers: readonly RunFolderAnswer[] }) {
  return (
    <ul class="pairs" data-testid="before-after">
      {answers.map(({ question, expected, ...texts }, i) => (
        <li key={i}>
          <p class="question">
            <ForeignText text={question} length={shownCharacters} />
            {expected === undefined ? null : <small>expected: {oneLine(expected, 200)}</small>}
          </p>
          {(["before", "after"] as const).map((side) => (
            <article key={side} class="card">
              <p class="soft side">{side === "before" ? "Before" : "After"}</p>
              <ForeignText text={texts[side] === "" ? "(nothing)" : texts[side]} length={shownCharacters} />
            </article>
          ))}
        </li>
      ))}
    </ul>
  );
}

/** The latest weights that can be sampled. */
function samplerOf({ run, folder }: RunData): string | undefined {
  const recorded = folder?.checkpoints.findLast((row) => typeof row["sampler_path"] === "string")?.["sampler_path"];
  if (typeof recorded === "string" && recorded.startsWith("tinker://")) return recorded;
  return run?.events.find(({ kind, detail }) => kind === "saved" && detail.includes("/sampler_weights/"))?.detail;
}

function Pairs(props: {
  readonly folderId: string;
  readonly ends: readonly [first: string, last: string];
  readonly model: string | undefined;
}) {
  const { folderId, ends, model } = props;
  const [pairs, setPairs] = useState<ReturnType<typeof pairAnswers>>([]);
  const [vocabulary, setVocabulary] = useState<Vocabulary>();
  useEffect(() => {
    let isOver = false;
    const read = (file: string) => call("getRollouts", { folderId, file, offset: 0, limit: maxRows });
    Promise.all(ends.map(read)).then(
      ([first, last]) => {
        if (isOver) return;
        const found = pairAnswers(answersOf(first!.rows), answersOf(last!.rows)).slice(0, shownPairs);
        setPairs(found);
        const hasTokens = found.some((pair) => pair.some((one) => one.tokens.length > 0));
        if (hasTokens && model !== undefined)
          void loadVocabulary(model).then((loaded) => isOver || setVocabulary(loaded));
      },
      () => {}, // the list of rollouts shows the error
    );
    return () => {
      isOver = true;
    };
  }, [folderId, ends.join(" "), model]);
  if (pairs.length === 0) return <p class="soft">No answers were recorded at the first and the last step.</p>;
  return (
    <>
      <p class="soft">The first recorded answers to the first questions; they are not chosen by their reward.</p>
      <ul class="pairs" data-testid="before-after">
        {pairs.map((pair, i) => (
          <li key={i}>
            {pair.map((one, side) => (
              <Side
                key={side}
                one={one}
                title={side === 0 ? `Step ${stepOf(ends[0])}` : `Step ${stepOf(ends[1])}`}
                vocabulary={vocabulary}
              />
            ))}
          </li>
        ))}
      </ul>
    </>
  );
}

function Side({
  one,
  title,
  vocabulary,
}: {
  readonly one: Answered;
  readonly title: string;
  readonly vocabulary: Vocabulary | undefined;
}) {
  const { question, reward, text, tokens } = one;
  const written =
    vocabulary === undefined || tokens.length === 0
      ? text
      : tokens.map((token) => vocabulary.get(token) ?? "\ufffd").join("");
  return (
    <article class="card">
      <div class="card-head">
        <span class="soft">{title}</span>
        <span class="tag">reward {formatNumber(reward)}</span>
      </div>
      {question === "" ? null : <p class="soft">{oneLine(question, 200)}</p>}
      <ForeignText text={written === "" ? "(nothing)" : written} length={shownCharacters} />
    </article>
  );
}
