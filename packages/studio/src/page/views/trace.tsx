/** One trace: its conversations with calls of tools and their results, ratings of its answers, and its spans. */
import type { GetTraceResponse, TraceConversation, TraceTurn } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { formatBytes, formatCount, formatDuration, formatTime } from "../format.ts";
import { Confirm, ForeignText, Notice, WideTable } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { problemText } from "../store.ts";
import { oneLine } from "../text.ts";
import { changeTrace, traceList, tracesUrl } from "../trace-list.ts";
import { messageOf, readable, rerated, type TraceMessage, withRating } from "../trace-messages.ts";
import { type NewRating, RatingControls } from "./rating.tsx";
import { titleOf } from "./traces.tsx";

const firstConversations = 5;
const firstTurns = 50;
const shownSpans = 200;
/** Characters of a message that are shown first: of an answer, and of what was only sent. */
const [answerLength, sentLength] = [8000, 2000];

export function Trace({ id }: { readonly id: string }) {
  const [found, setFound] = useState<GetTraceResponse>();
  const [problem, setProblem] = useState<string>();
  const [confirmation, setConfirmation] = useState("");
  const [shown, setShown] = useState(firstConversations);
  const [isDeleting, setDeleting] = useState(false);
  useEffect(() => {
    call("getTrace", { traceId: id }).then(setFound, (error: unknown) => setProblem(problemText(error)));
  }, [id]);
  useEffect(() => {
    if (found !== undefined) changeTrace(id, (row) => rerated(row, found.conversations));
  }, [found]);
  const back = tracesUrl(traceList.value?.filters);
  if (found === undefined) {
    return problem === undefined ? (
      <Notice kind="loading" title="Loading the trace …" />
    ) : (
      <Notice kind="problem" title={problem}>
        <p>
          <a href={back}>All traces</a>
        </p>
      </Notice>
    );
  }
  const { trace, conversations, spans } = found;
  const rate = async (spanId: string, rating: NewRating): Promise<boolean> => {
    try {
      const stored = await call("rateTrace", { traceId: id, spanId, ...rating });
      setFound((now) => now && { ...now, conversations: withRating(now.conversations, spanId, stored.rating) });
      setProblem(undefined);
      setConfirmation(stored.rating === undefined ? "The rating was removed." : "The rating was saved.");
      return true;
    } catch (error) {
      setConfirmation("");
      setProblem(problemText(error));
      return false;
    }
  };
  const remove = async () => {
    try {
      await call("deleteTrace", { traceId: id });
      changeTrace(id, () => undefined);
      location.hash = back;
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return (
    <section aria-labelledby="title" data-testid="trace">
      <p class="crumbs">
        <a href={back}>Traces</a>
      </p>
      <div class="head">
        <h1 id="title">{titleOf(trace)}</h1>
        {trace.error === undefined ? null : <span class="status status-failed">Error</span>}
      </div>
      <p class="soft facts">
        {trace.service === undefined ? null : <span>{oneLine(trace.service, 60)}</span>}
        {trace.models.slice(0, 5).map((model) => (
          <span key={model}>{oneLine(model, 60)}</span>
        ))}
        <span>{formatTime(trace.startedAt)}</span>
        <span>{formatDuration((Number(trace.endedAt) - Number(trace.startedAt)) / 1000)}</span>
        <span>
          {formatCount(trace.inputTokens)} tokens read, {formatCount(trace.outputTokens)} written
        </span>
      </p>
      <div class="row">
        <Neighbours id={id} />
        <button type="button" class="danger quiet" onClick={() => setDeleting(true)}>
          Delete …
        </button>
      </div>
      <p class="said" role="status">
        {confirmation}
      </p>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {conversations.length === 0 ? (
        <Notice kind="empty" title="This trace has no call of a model." />
      ) : (
        conversations
          .slice(0, shown)
          .map((one, i) => (
            <Conversation
              key={one.conversationId}
              one={one}
              name={conversations.length === 1 ? "Conversation" : `Conversation ${i + 1} of ${conversations.length}`}
              onRate={rate}
            />
          ))
      )}
      {conversations.length > shown ? (
        <button type="button" onClick={() => setShown(shown + 20)}>
          Show more conversations
        </button>
      ) : null}
      <Spans spans={spans} />
      {isDeleting ? (
        <Confirm
          title="Delete this trace?"
          action="Delete permanently"
          onConfirm={() => void remove()}
          onClose={() => setDeleting(false)}
        >
          <p>Its {formatCount(spans.length)} spans and their ratings cannot be restored.</p>
        </Confirm>
      ) : null}
    </section>
  );
}

/** Links to the traces before and after this one in the list. */
function Neighbours({ id }: { readonly id: string }) {
  const rows = traceList.value?.rows ?? [];
  const at = rows.findIndex(({ traceId }) => traceId === id);
  if (at < 0) return null;
  return (
    <>
      {[[rows[at - 1], "Previous"] as const, [rows[at + 1], "Next"] as const].map(([row, word]) =>
        row === undefined ? null : (
          <a key={word} class="button quiet" href={placeUrl(["traces", row.traceId])}>
            {word}
          </a>
        ),
      )}
    </>
  );
}

interface ConversationProps {
  readonly one: TraceConversation;
  readonly name: string;
  readonly onRate: (spanId: string, rating: NewRating) => Promise<boolean>;
}

function Conversation({ one, name, onRate }: ConversationProps) {
  const [shown, setShown] = useState(firstTurns);
  const messages = one.turns.map(({ message }) => messageOf(message));
  const toolOf = new Map(messages.flatMap(({ calls }) => calls.map((made) => [made.id, made.name] as const)));
  let answers = 0;
  return (
    <section aria-label={name} data-testid="conversation">
      <div class="head">
        <h2>{name}</h2>
        {one.model === undefined ? null : <span class="soft">{oneLine(one.model, 60)}</span>}
      </div>
      {one.incomplete ? (
        <p class="explain">
          The model also received content that is not stored, such as images. This conversation is not exported.
        </p>
      ) : null}
      {one.tools.length === 0 ? null : (
        <details class="panel">
          <summary>Tools ({one.tools.length})</summary>
          <ForeignText text={readable(JSON.stringify(one.tools))} />
        </details>
      )}
      <ol class="messages">
        {one.turns.slice(0, shown).map((turn, i) => {
          const message = messages[i]!;
          if (turn.spanId !== undefined) answers++;
          return (
            <Turn
              key={i}
              turn={turn}
              message={message}
              tool={message.callId === undefined ? undefined : toolOf.get(message.callId)}
              number={answers}
              onRate={onRate}
            />
          );
        })}
      </ol>
      {one.turns.length > shown ? (
        <button type="button" onClick={() => setShown(shown + 200)}>
          Show more of {formatCount(one.turns.length)} messages
        </button>
      ) : null}
      {one.error === undefined ? null : (
        <p class="explain explain-failed">
          <strong>Error: </strong>
          <ForeignText text={one.error} />
        </p>
      )}
    </section>
  );
}

const roles = new Map([
  ["system", "System"],
  ["developer", "System"],
  ["user", "User"],
  ["assistant", "Assistant"],
  ["tool", "Tool"],
]);

function Turn(props: {
  readonly turn: TraceTurn;
  readonly message: TraceMessage;
  /** Name of the tool whose result this is. */
  readonly tool: string | undefined;
  readonly number: number;
  readonly onRate: ConversationProps["onRate"];
}) {
  const { turn, message, tool, number, onRate } = props;
  const { spanId, rating } = turn;
  const role = roles.get(message.role) ?? oneLine(message.role, 40);
  const edited = rating?.answer ?? undefined;
  return (
    <li class={`message message-${roles.has(message.role) ? message.role : "other"}`}>
      <p class="role">
        {tool === undefined ? role : `Result of ${oneLine(tool, 60)}`}{" "}
        {edited === undefined ? null : <span class="tag tag-public">Edited</span>}
        {turn.hasTokens === true ? <span class="tag">tokens recorded</span> : null}
      </p>
      {message.reasoning === "" ? null : (
        <details>
          <summary>Reasoning</summary>
          <ForeignText text={message.reasoning} />
        </details>
      )}
      {edited === undefined ? (
        <ForeignText
          text={message.role === "tool" ? readable(message.content) : message.content}
          length={spanId === undefined ? sentLength : answerLength}
        />
      ) : (
        <>
          <ForeignText text={edited} length={answerLength} />
          <details>
            <summary>Recorded answer</summary>
            <ForeignText text={message.content} length={answerLength} />
          </details>
        </>
      )}
      {message.calls.map((made, i) => (
        <div key={i} class="call">
          <p class="role">Calls {oneLine(made.name, 60)}</p>
          <ForeignText text={made.arguments} length={sentLength} />
        </div>
      ))}
      {spanId === undefined ? null : (
        <RatingControls
          rating={rating}
          recorded={message.content}
          number={number}
          onRate={(next) => onRate(spanId, next)}
        />
      )}
    </li>
  );
}

/** All spans, with the errors of those that are not the end of a conversation. */
function Spans({ spans }: { readonly spans: GetTraceResponse["spans"] }) {
  return (
    <details class="panel">
      <summary>Spans ({formatCount(spans.length)})</summary>
      <WideTable name="Spans">
        <table class="spans">
          <thead>
            <tr>
              {["Span", "Kind", "Model", "Duration", "Size"].map((word) => (
                <th key={word} scope="col">
                  {word}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {spans.slice(0, shownSpans).map((span) => (
              <tr key={span.spanId}>
                <th scope="row">
                  {oneLine(span.name, 80)}
                  {span.error === undefined ? null : <small class="problem">{oneLine(span.error, 400)}</small>}
                </th>
                <td>{span.kind}</td>
                <td>{oneLine(span.model ?? "", 60)}</td>
                <td class="nowrap">{formatDuration((Number(span.endedAt) - Number(span.startedAt)) / 1000)}</td>
                <td class="nowrap">{formatBytes(span.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideTable>
      {spans.length > shownSpans ? <p class="soft">The first {shownSpans} are shown.</p> : null}
    </details>
  );
}
