/** Evaluations: a list of all, and one with its figures and the models' answers next to each other. */
import type { Evaluation, EvaluationFigure, EvaluationResponse, EvaluationScore } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { bestOf, type EvaluationItem, type ItemAnswer, type ItemFilter, isShown, itemOf } from "../evaluation-items.ts";
import { formatAge, formatCount, formatDuration, formatNumber, formatTime } from "../format.ts";
import { Choice, ForeignText, Notice } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { now, problemText } from "../store.ts";
import { oneLine } from "../text.ts";

const pageSize = 200;
const firstShown = 30;
const shownCharacters = 600;
const shownModels = 4;

export function Evaluations() {
  const [found, setFound] = useState<readonly Evaluation[]>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    call("listEvaluations", {}).then(
      ({ evaluations }) => setFound(evaluations),
      (error: unknown) => setProblem(problemText(error)),
    );
  }, []);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Evaluations</h1>
      </div>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {found === undefined ? (
        problem === undefined ? (
          <Notice kind="loading" title="Loading evaluations …" />
        ) : null
      ) : found.length === 0 ? (
        <Notice kind="empty" title="No evaluations yet.">
          <p>To measure a model on your own questions:</p>
          <pre>npx tinklet eval test.jsonl --from NAME</pre>
        </Notice>
      ) : (
        <List evaluations={found} />
      )}
    </section>
  );
}

function List({ evaluations }: { readonly evaluations: readonly Evaluation[] }) {
  return (
    <div class="scroll">
      <table data-testid="evaluations">
        <thead>
          <tr>
            <th scope="col">Evaluation</th>
            <th scope="col">Result</th>
            <th scope="col" class="number">
              Questions
            </th>
            <th scope="col" class="number">
              Measured
            </th>
          </tr>
        </thead>
        <tbody>
          {evaluations.map((one) => (
            <tr key={one.evaluationId}>
              <th scope="row">
                <a href={placeUrl(["evaluations", one.evaluationId])}>{oneLine(one.name, 60)}</a>
                {one.data === one.name ? null : <small>{oneLine(one.data, 80)}</small>}
              </th>
              <td>
                <Headline evaluation={one} />
              </td>
              <td class="number">{formatCount(one.items)}</td>
              <td class="number">
                <time dateTime={one.createdAt.toISOString()} title={formatTime(one.createdAt)}>
                  {formatAge(one.createdAt, now.value)}
                </time>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The score by which models are compared first: one that is counted right or wrong rather than a loss. */
const mainScore = (scores: readonly EvaluationScore[]): EvaluationScore | undefined =>
  scores.find(({ better }) => better === "higher") ?? scores[0];

/** The main score of each model. */
function Headline({ evaluation: { scores, models, results } }: { readonly evaluation: Evaluation }) {
  const main = mainScore(scores);
  if (main === undefined) return null;
  return (
    <ul class="facts plain">
      {models.slice(0, shownModels).map(({ label }, i) => (
        <li key={i}>
          <span class="soft">{oneLine(label, 40)}</span> <strong>{formatNumber(results[i]?.[main.name]?.mean)}</strong>
        </li>
      ))}
      <li class="soft">{oneLine(main.name, 40)}</li>
    </ul>
  );
}

export function EvaluationView({ id }: { readonly id: string }) {
  const [found, setFound] = useState<EvaluationResponse>();
  const [problem, setProblem] = useState<string>();
  const load = (offset: number) =>
    call("getEvaluation", { evaluationId: id, offset, limit: pageSize }).then(
      (later) => {
        setFound((before) => (before === undefined ? later : { ...later, rows: [...before.rows, ...later.rows] }));
        setProblem(undefined);
      },
      (error: unknown) => setProblem(problemText(error)),
    );
  useEffect(() => void load(0), [id]);
  if (found === undefined) {
    return problem === undefined ? (
      <Notice kind="loading" title="Loading the evaluation …" />
    ) : (
      <Notice kind="problem" title={problem}>
        <p>
          <a href={placeUrl(["evaluations"])}>All evaluations</a>
        </p>
      </Notice>
    );
  }
  const { evaluation, rows, total } = found;
  const settings = Object.entries(evaluation.settings)
    .filter(([, value]) => value !== null)
    .slice(0, 20);
  return (
    <section aria-labelledby="title">
      <p class="crumbs">
        <a href={placeUrl(["evaluations"])}>Evaluations</a>
      </p>
      <div class="head">
        <h1 id="title">{oneLine(evaluation.name, 80)}</h1>
      </div>
      <p class="soft facts">
        <span>{oneLine(evaluation.data, 80)}</span>
        <span>{formatCount(evaluation.items)} questions</span>
        {evaluation.seconds === undefined ? null : <span>{formatDuration(evaluation.seconds)}</span>}
        <span>{formatTime(evaluation.createdAt)}</span>
        {settings.map(([name, value]) => (
          <span key={name}>
            {oneLine(name, 40)} {oneLine(typeof value === "string" ? value : JSON.stringify(value), 40)}
          </span>
        ))}
      </p>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      <Figures evaluation={evaluation} />
      <Answers
        evaluation={evaluation}
        items={rows.map((row) => itemOf(row, evaluation.models.length))}
        missing={rows.length === 0 ? 0 : total - rows.length}
        onMore={() => void load(rows.length)}
      />
    </section>
  );
}

/** All models and scores; the best of each score is marked. */
function Figures({ evaluation: { scores, models, results } }: { readonly evaluation: Evaluation }) {
  const best = scores.map((score) =>
    bestOf(
      results.map((result) => result[score.name]?.mean),
      score,
    ),
  );
  return (
    <div class="scroll">
      <table class="figures" data-testid="figures">
        <thead>
          <tr>
            <th scope="col">Model</th>
            {scores.map(({ name, better }, i) => (
              <th key={i} scope="col" class="number">
                {oneLine(name, 40)} <span class="soft">({better} is better)</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {models.map(({ label, model, path }, i) => (
            <tr key={i}>
              <th scope="row">
                {oneLine(label, 60)}
                <small>{oneLine(path ?? model, 120)}</small>
              </th>
              {scores.map(({ name }, column) => (
                <td key={column} class={best[column]!.includes(i) ? "number best" : "number"}>
                  <Figure figure={results[i]?.[name]} isBest={best[column]!.includes(i)} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Figure({ figure, isBest }: { readonly figure: EvaluationFigure | undefined; readonly isBest: boolean }) {
  if (figure === undefined) return <>–</>;
  const { mean, low, high, unparsed = 0 } = figure;
  return (
    <>
      {formatNumber(mean)}
      {isBest ? <span class="hidden"> (best)</span> : null}
      {low === undefined || high === undefined ? null : (
        <small>
          {formatNumber(low)} to {formatNumber(high)}
        </small>
      )}
      {unparsed === 0 ? null : <small>{unparsed} without a score</small>}
    </>
  );
}

function Answers(props: {
  readonly evaluation: Evaluation;
  readonly items: readonly EvaluationItem[];
  /** Number of items that are not loaded. */
  readonly missing: number;
  readonly onMore: () => void;
}) {
  const { evaluation, items, missing, onMore } = props;
  const { scores, models } = evaluation;
  const [filter, setFilter] = useState<ItemFilter>("all");
  const [count, setCount] = useState(firstShown);
  const main = mainScore(scores);
  const wanted = items.filter((item) => isShown(item, filter, main));
  return (
    <>
      <div class="row controls">
        <h2>Answers</h2>
        {models.length < 2 || main === undefined ? null : (
          <Choice
            label="Which answers"
            value={filter}
            options={[
              ["all", "All"],
              ["differ", "Scores differ"],
              ["better", `Better than ${oneLine(models[0]!.label, 20)}`],
              ["worse", "Worse"],
            ]}
            onChange={(next) => {
              setCount(firstShown);
              setFilter(next);
            }}
          />
        )}
        <span class="soft" role="status" data-testid="answer-count">
          {wanted.length} of {items.length}
          {missing > 0 ? ` loaded, ${missing} more` : ""}
        </span>
      </div>
      <ol class="items" data-testid="items">
        {wanted.slice(0, count).map((item, i) => (
          <li key={i} class="panel">
            <p class="question">
              <ForeignText text={item.question === "" ? "(no question)" : item.question} length={shownCharacters} />
            </p>
            {item.expected === undefined ? null : (
              <p class="soft">
                expected: <ForeignText text={item.expected} length={shownCharacters} />
              </p>
            )}
            <div class="columns">
              {models.map(({ label }, column) => (
                <AnswerCard key={column} label={label} answer={item.answers[column]!} scores={scores} />
              ))}
            </div>
          </li>
        ))}
      </ol>
      {wanted.length > count ? (
        <button type="button" onClick={() => setCount(count + 100)}>
          Show {Math.min(100, wanted.length - count)} more
        </button>
      ) : missing > 0 ? (
        <button type="button" onClick={onMore}>
          Load more
        </button>
      ) : null}
    </>
  );
}

function AnswerCard(props: {
  readonly label: string;
  readonly answer: ItemAnswer;
  readonly scores: readonly EvaluationScore[];
}) {
  const { label, answer, scores } = props;
  return (
    <article class="card">
      <p class="row side">
        <span class="soft">{oneLine(label, 40)}</span>
        {scores.map(({ name, better }, i) => {
          const score = answer.scores.get(name);
          if (score === undefined) return null;
          const mood =
            better === "higher" && score === 1 ? " tag-good" : better === "higher" && score === 0 ? " tag-bad" : "";
          return (
            <span key={i} class={`tag${mood}`}>
              {oneLine(name, 30)} {score === null ? "not readable" : formatNumber(score)}
            </span>
          );
        })}
        {answer.isTruncated ? <span class="tag">cut off</span> : null}
      </p>
      {answer.text === undefined ? null : (
        <ForeignText text={answer.text === "" ? "(nothing)" : answer.text} length={shownCharacters} />
      )}
    </article>
  );
}
