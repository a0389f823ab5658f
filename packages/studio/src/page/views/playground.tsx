/** The playground: a chat with up to three models side by side, which get the same messages and the same seed. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { send } from "../api.ts";
import { type CodeKind, codeKinds, codeOf } from "../chat-code.ts";
import { Choice, CopyButton, ForeignText, Notice } from "../parts.tsx";
import { place, placeUrl, replacePlace } from "../router.ts";
import { problemText } from "../store.ts";
import { oneLine, plainText } from "../text.ts";
import { type Answer, AnswerView } from "./answer.tsx";
import { nameOfRun } from "./checkpoints.tsx";
import { type AnswerRequest, type Message, stream, type Token } from "./stream.ts";

const maxColumns = 3;
/** Tokens that arrive within this time are drawn together. */
const drawEveryMs = 40;

/** A message of the user, and the answers to it by column. */
interface Turn {
  readonly id: number;
  readonly prompt: string;
  readonly answers: Readonly<Record<number, Answer>>;
}

interface Settings {
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
}

/** The messages before and at a turn, as one column's model gets them. Turns that the model did not answer are left out. */
export function messagesOf(turns: readonly Turn[], column: number, system: string): readonly Message[] {
  const last = turns.at(-1);
  return [
    ...(system.trim() === "" ? [] : [{ role: "system", content: system } as const]),
    ...turns.slice(0, -1).flatMap(({ prompt, answers }): Message[] => {
      const text = answers[column]?.tokens.map((token) => token.text).join("") ?? "";
      return text === ""
        ? []
        : [
            { role: "user", content: prompt },
            { role: "assistant", content: text },
          ];
    }),
    ...(last === undefined ? [] : [{ role: "user", content: last.prompt } as const]),
  ];
}

export function Playground() {
  const [models, setModels] = useState<readonly string[]>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    send("/v1/models")
      .then((response) => response.json())
      .then(
        ({ data }: { data: { id: string }[] }) => setModels(data.map(({ id }) => id)),
        (error: unknown) => setProblem(problemText(error)),
      );
  }, []);
  if (problem !== undefined) return <Notice kind="problem" title={problem} />;
  if (models === undefined) return <Notice kind="loading" title="Loading models …" />;
  if (models.length === 0) {
    return (
      <Notice kind="empty" title="No model is served.">
        <p>Start a server to chat with a model: npx tinklet serve</p>
      </Notice>
    );
  }
  return <Chat models={models} />;
}

function Chat({ models }: { readonly models: readonly string[] }) {
  const { query } = place.value;
  const [mode, setMode] = useState<AnswerRequest["mode"]>(query.get("mode") === "complete" ? "complete" : "chat");
  const [prompt, setPrompt] = useState(query.get("prompt") ?? "");
  const [system, setSystem] = useState("");
  const [numbers, setNumbers] = useState<Settings>({ temperature: 0.7, maxTokens: 256, seed: 0 });
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const stop = useRef<AbortController | undefined>(undefined);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => () => stop.current?.abort(), []);
  useEffect(() => {
    if (turns.length > 1) end.current?.scrollIntoView({ block: "nearest" });
  }, [turns.length]);
  const asked = query.getAll("model").filter(Boolean).slice(0, maxColumns);
  const chosen = asked.length > 0 ? asked : [models[0]!];
  const choose = (next: readonly string[]) => {
    const base = placeUrl(["playground"]);
    replacePlace(`${base}?${next.map((model) => `model=${encodeURIComponent(model)}`).join("&")}`);
  };
  const isBusy = Object.values(turns.at(-1)?.answers ?? {}).some(({ state }) => state === "writing");
  const requestOf = (model: string, column: number, all: readonly Turn[]): AnswerRequest => ({
    ...{ model, mode, prompt: all.at(-1)?.prompt ?? prompt },
    messages: messagesOf(all, column, system),
    ...numbers,
  });
  const ask = async (text: string, before: readonly Turn[]) => {
    if (text.trim() === "" || isBusy) return;
    const controller = new AbortController();
    stop.current = controller;
    const id = (before.at(-1)?.id ?? 0) + 1;
    const all = [...before, { id, prompt: text, answers: {} }];
    const put = (column: number, change: (answer: Answer) => Answer) =>
      setTurns((now) =>
        now.map((turn) => {
          const old = turn.answers[column] ?? { state: "writing", tokens: [] };
          return turn.id === id ? { ...turn, answers: { ...turn.answers, [column]: change(old) } } : turn;
        }),
      );
    setTurns(all);
    setPrompt(mode === "chat" ? "" : text);
    await Promise.all(
      chosen.map(async (model, column) => {
        put(column, () => ({ state: "writing", tokens: [] }));
        let fresh: Token[] = [];
        const draw = () => {
          const tokens = fresh;
          fresh = [];
          if (tokens.length > 0) put(column, (old) => ({ ...old, tokens: old.tokens.concat(tokens) }));
        };
        const timer = setInterval(draw, drawEveryMs);
        try {
          for await (const token of stream(requestOf(model, column, all), controller.signal)) fresh.push(token);
          draw();
          put(column, (old) => ({ ...old, state: "done" }));
        } catch (error) {
          draw();
          const message = controller.signal.aborted ? "Stopped." : problemText(error);
          put(column, (old) => ({ ...old, state: "failed", problem: message }));
        } finally {
          clearInterval(timer);
        }
      }),
    );
  };
  const again = () => {
    const last = turns.at(-1);
    if (last !== undefined) void ask(last.prompt, turns.slice(0, -1));
  };
  // The same element while the user types: long answers have a thousand parts.
  const chatLog = useMemo(
    () => (
      <ol class="chat" data-testid="answers">
        {turns.map((turn, i) => (
          <li key={turn.id}>
            <div class="said-by-user">
              <span class="hidden">You: </span>
              <ForeignText text={turn.prompt} />
            </div>
            <div class="columns">
              {chosen.map((model, column) => (
                <article key={column} class="card" aria-label={`Answer ${column + 1} of turn ${i + 1}`}>
                  {chosen.length > 1 ? <p class="soft clipped">{oneLine(labelOf(model), 80)}</p> : null}
                  <AnswerView answer={turn.answers[column]} />
                </article>
              ))}
            </div>
          </li>
        ))}
      </ol>
    ),
    [turns, chosen.join("\n")],
  );
  return (
    <section aria-labelledby="title" class="playground">
      <div class="head">
        <h1 id="title">Playground</h1>
        <Choice
          label="What to do"
          value={mode}
          options={[
            ["chat", "Chat"],
            ["complete", "Complete"],
          ]}
          onChange={(next) => {
            stop.current?.abort();
            setTurns([]);
            setMode(next);
          }}
        />
        <button
          type="button"
          class="quiet"
          disabled={turns.length === 0}
          onClick={() => {
            stop.current?.abort();
            setTurns([]);
          }}
        >
          New chat
        </button>
      </div>
      <div class="columns models">
        {chosen.map((model, column) => (
          <div key={column} class="row model-head">
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
                disabled={isBusy}
                onClick={() => {
                  setTurns((all) => all.map((turn) => ({ ...turn, answers: without(turn.answers, column) })));
                  choose(chosen.filter((_, i) => i !== column));
                }}
              >
                Remove
              </button>
            ) : null}
          </div>
        ))}
        {chosen.length < maxColumns ? (
          <button type="button" class="add" onClick={() => choose([...chosen, models[0]!])}>
            Add a model to compare
          </button>
        ) : null}
      </div>
      {mode === "chat" ? (
        <details class="system" open={system !== ""}>
          <summary>System message{system === "" ? "" : ` (${system.length} characters)`}</summary>
          <textarea
            aria-label="System message"
            rows={2}
            value={system}
            onInput={(event) => setSystem(event.currentTarget.value)}
          />
        </details>
      ) : null}
      {chatLog}
      <div ref={end} />
      <form
        class="ask"
        onSubmit={(event) => {
          event.preventDefault();
          void ask(prompt, mode === "chat" ? turns : []);
        }}
      >
        <label class="hidden" for="message">
          {mode === "chat" ? "Message" : "Text to continue"}
        </label>
        <textarea
          id="message"
          rows={mode === "chat" ? 2 : 5}
          value={prompt}
          placeholder={mode === "chat" ? "Message; Enter sends, Shift + Enter starts a new line" : "Text to continue"}
          onInput={(event) => setPrompt(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            if (mode === "complete" && !event.ctrlKey && !event.metaKey) return;
            event.preventDefault();
            void ask(prompt, mode === "chat" ? turns : []);
          }}
        />
        <div class="row controls">
          <button type="submit" class="main" disabled={prompt.trim() === "" || isBusy}>
            Send
          </button>
          <button type="button" disabled={!isBusy} onClick={() => stop.current?.abort()}>
            Stop
          </button>
          <button type="button" disabled={isBusy || turns.length === 0} onClick={again}>
            Ask again
          </button>
          <Numbers value={numbers} onChange={setNumbers} />
        </div>
      </form>
      <Code
        requests={chosen.map((model, column) =>
          requestOf(model, column, turns.length > 0 ? turns : [{ id: 0, prompt, answers: {} }]),
        )}
      />
    </section>
  );
}

/** The answers without those of a column; later columns move up. */
function without(answers: Turn["answers"], column: number): Turn["answers"] {
  const kept = Object.entries(answers).filter(([at]) => Number(at) !== column);
  return Object.fromEntries(kept.map(([at, answer]) => [Number(at) > column ? Number(at) - 1 : Number(at), answer]));
}

/** The program that asks the same. */
function Code({ requests }: { readonly requests: readonly AnswerRequest[] }) {
  const [isOpen, setOpen] = useState(false);
  const [kind, setKind] = useState<CodeKind>("sdk");
  const [column, setColumn] = useState(0);
  const asked = requests[column] ?? requests[0]!;
  const code = isOpen ? codeOf(kind, asked, location.origin) : "";
  return (
    <details class="panel" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Use it in code</summary>
      {isOpen ? (
        <>
          <div class="row controls">
            <Choice label="Code for" value={kind} options={codeKinds} onChange={setKind} />
            {requests.length < 2 ? null : (
              <Choice
                label="Code of which model"
                value={String(Math.min(column, requests.length - 1))}
                options={requests.map((_, i) => [String(i), `Model ${i + 1}`] as const)}
                onChange={(value) => setColumn(Number(value))}
              />
            )}
            <CopyButton text={code} label="Copy code" />
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
          <pre tabIndex={0} data-testid="code">
            {plainText(code)}
          </pre>
        </>
      ) : null}
    </details>
  );
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

/** A path as the checkpoint's name and its run's. */
function labelOf(model: string): string {
  const [, run, name] = /^tinker:\/\/([^/]+)\/.*?([^/]+)$/.exec(model) ?? [];
  return run === undefined ? model : `${name} · ${nameOfRun(run)}`;
}
