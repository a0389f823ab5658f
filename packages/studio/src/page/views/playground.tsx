/** The playground: sends one prompt to up to three models with the same seed and streams the answers side by side. */
import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "../api.ts";
import { Choice, CopyButton, Notice } from "../parts.tsx";
import { place, placeUrl, replacePlace } from "../router.ts";
import { problemText } from "../store.ts";
import { oneLine } from "../text.ts";
import { type Answer, AnswerView } from "./answer.tsx";
import { type AnswerRequest, stream } from "./stream.ts";

const maxColumns = 3;

export function Playground() {
  const { query } = place.value;
  const [models, setModels] = useState<readonly string[]>();
  const [problem, setProblem] = useState<string>();
  const [mode, setMode] = useState<AnswerRequest["mode"]>(query.get("mode") === "complete" ? "complete" : "chat");
  const [prompt, setPrompt] = useState(query.get("prompt") ?? "");
  const [system, setSystem] = useState("");
  const [numbers, setNumbers] = useState({ temperature: 0.7, maxTokens: 128, seed: 0 });
  const [answers, setAnswers] = useState<Readonly<Record<number, Answer>>>({});
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => {
    send("/v1/models")
      .then((response) => response.json())
      .then(
        ({ data }: { data: { id: string }[] }) => setModels(data.map(({ id }) => id)),
        (error: unknown) => setProblem(problemText(error)),
      );
    return () => stop.current?.abort();
  }, []);
  if (problem !== undefined) return <Notice kind="problem" title={problem} />;
  if (models === undefined) return <Notice kind="loading" title="Loading models …" />;
  if (models.length === 0) {
    return (
      <Notice kind="empty" title="No model is served.">
        <p>Start a server to chat with a model: tinklet serve</p>
      </Notice>
    );
  }
  const asked = query.getAll("model").filter(Boolean).slice(0, maxColumns);
  const chosen = asked.length > 0 ? asked : [models[0]!];
  const choose = (next: readonly string[]) => {
    const base = placeUrl(["playground"]);
    replacePlace(`${base}?${next.map((model) => `model=${encodeURIComponent(model)}`).join("&")}`);
  };
  const isBusy = Object.values(answers).some(({ state }) => state === "writing");
  const ask = async () => {
    stop.current?.abort();
    const controller = new AbortController();
    stop.current = controller;
    const put = (column: number, change: (before: Answer) => Answer) =>
      setAnswers((all) => ({ ...all, [column]: change(all[column] ?? { state: "writing", tokens: [] }) }));
    setAnswers({});
    await Promise.all(
      chosen.map(async (model, column) => {
        put(column, () => ({ state: "writing", tokens: [] }));
        try {
          for await (const token of stream({ model, mode, prompt, system, ...numbers }, controller.signal)) {
            put(column, (before) => ({ ...before, tokens: [...before.tokens, token] }));
          }
          put(column, (before) => ({ ...before, state: "done" }));
        } catch (error) {
          const message = controller.signal.aborted ? "Stopped." : problemText(error);
          put(column, (before) => ({ ...before, state: "failed", problem: message }));
        }
      }),
    );
  };
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Playground</h1>
        <Choice
          label="What to do"
          value={mode}
          options={[
            ["chat", "Chat"],
            ["complete", "Complete"],
          ]}
          onChange={setMode}
        />
      </div>
      <form
        class="ask"
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        {mode === "chat" ? (
          <label>
            System prompt
            <textarea rows={1} value={system} onInput={(event) => setSystem(event.currentTarget.value)} />
          </label>
        ) : null}
        <label>
          {mode === "chat" ? "Message" : "Text to continue"}
          <textarea
            rows={3}
            value={prompt}
            required
            onInput={(event) => setPrompt(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void ask();
            }}
          />
        </label>
        <div class="row controls">
          <Numbers value={numbers} onChange={setNumbers} />
          <button type="submit" class="main" disabled={prompt === ""}>
            Ask
          </button>
          <button type="button" disabled={!isBusy} onClick={() => stop.current?.abort()}>
            Stop
          </button>
        </div>
      </form>
      <div class="columns" data-testid="answers">
        {chosen.map((model, column) => (
          <article key={column} class="card" aria-label={`Answer ${column + 1}`}>
            <div class="card-head">
              <ModelSelect
                models={models}
                value={model}
                label={`Model ${column + 1}`}
                onChange={(next) => choose(chosen.map((one, i) => (i === column ? next : one)))}
              />
              {chosen.length > 1 ? (
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Remove model ${column + 1}`}
                  onClick={() => choose(chosen.filter((_, i) => i !== column))}
                >
                  Remove
                </button>
              ) : null}
            </div>
            <AnswerView answer={answers[column]} />
            <CopyButton text={commandOf({ model, mode, prompt, system, ...numbers })} label="Copy as a command" />
          </article>
        ))}
        {chosen.length < maxColumns ? (
          <button type="button" class="add" onClick={() => choose([...chosen, models[0]!])}>
            Add a model to compare
          </button>
        ) : null}
      </div>
    </section>
  );
}

interface Settings {
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
}

function Numbers({ value, onChange }: { readonly value: Settings; readonly onChange: (value: Settings) => void }) {
  const fields = [
    ["temperature", "Temperature", 0, 2, 0.1],
    ["maxTokens", "Tokens", 1, 4096, 1],
    ["seed", "Seed", 0, 4_294_967_295, 1],
  ] as const;
  return fields.map(([key, label, min, max, step]) => (
    <label key={key}>
      {label}
      <input
        type="number"
        {...{ min, max, step }}
        value={value[key]}
        onInput={(event) => {
          const number = event.currentTarget.valueAsNumber;
          if (number >= min && number <= max) onChange({ ...value, [key]: number });
        }}
      />
    </label>
  ));
}

function ModelSelect(props: {
  readonly models: readonly string[];
  readonly value: string;
  readonly label: string;
  readonly onChange: (model: string) => void;
}) {
  const all = props.models.includes(props.value) ? props.models : [props.value, ...props.models];
  return (
    <select
      aria-label={props.label}
      value={props.value}
      onChange={(event) => props.onChange(event.currentTarget.value)}
    >
      {all.slice(0, 500).map((model) => (
        <option key={model} value={model}>
          {oneLine(labelOf(model), 80)}
        </option>
      ))}
    </select>
  );
}

/** The checkpoint name before the run id, because the list is narrow and run ids are long. */
function labelOf(model: string): string {
  const [, run, name] = /^tinker:\/\/([^/]+)\/.*?([^/]+)$/.exec(model) ?? [];
  return run === undefined ? model : `${name} · ${run}`;
}

/** A shell argument, quoted if needed. */
const quoted = (text: string): string => (/^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function commandOf(asked: AnswerRequest): string {
  const from = asked.model.startsWith("tinker://") ? "--from" : "--model";
  const chat = asked.mode === "chat" ? " --chat" : "";
  return `tinklet sample ${quoted(asked.prompt)}${chat} ${from} ${quoted(asked.model)} --temperature ${asked.temperature} --max-tokens ${asked.maxTokens} --seed ${asked.seed}`;
}
