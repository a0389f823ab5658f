/** The rating of an answer: thumbs, a comment, and an edited answer. */
import type { RateTraceRequest, TraceRating, TraceSummary } from "@tinklet/wire";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ForeignText } from "../parts.tsx";

export const Thumb = ({ isDown = false }: { readonly isDown?: boolean }) => (
  <svg class={isDown ? "thumb thumb-down" : "thumb"} viewBox="0 0 20 20" aria-hidden="true">
    <path d="M2 9h3v8H2zM6.5 9l3-6.5c1.5 0 2.3 1.2 2 2.6L10.9 8H16c1 0 1.7.9 1.4 1.9l-1.8 6c-.2.7-.8 1.1-1.5 1.1H6.5z" />
  </svg>
);

/** The rating in a list. */
export function RatingMark({ one: { rating, rated } }: { readonly one: TraceSummary }) {
  if (rating === undefined) return rated ? <span class="tag">Edited</span> : null;
  return (
    <span class={rating === "up" ? "mood-good" : "mood-bad"}>
      <Thumb isDown={rating === "down"} />
      <span class="hidden">{rating === "up" ? "Rated good" : "Rated bad"}</span>
    </span>
  );
}

/** A rating without the time; nulls delete it. */
export type NewRating = Pick<RateTraceRequest, "rating" | "comment" | "answer">;

export function RatingControls(props: {
  readonly rating: TraceRating | undefined;
  /** The answer as it was recorded. */
  readonly recorded: string;
  /** Names the answer among those of the page. */
  readonly number: number;
  /** Stores the rating; false if that failed. */
  readonly onRate: (rating: NewRating) => Promise<boolean>;
}) {
  const { recorded, number, onRate } = props;
  const { rating = null, comment = null, answer = null } = props.rating ?? {};
  const now: NewRating = { rating, comment, answer };
  const [editing, setEditing] = useState<"comment" | "answer">();
  const opener = useRef<HTMLButtonElement | undefined>(undefined);
  const close = () => {
    setEditing(undefined);
    opener.current?.focus();
  };
  const open = (what: "comment" | "answer", label: string, word: string) => (
    <button
      type="button"
      class="quiet"
      aria-label={`${label} ${number}`}
      aria-expanded={editing === what}
      onClick={(event) => {
        opener.current = event.currentTarget;
        setEditing(what);
      }}
    >
      {word}
    </button>
  );
  const thumb = (value: "up" | "down", label: string) => (
    <button
      type="button"
      class="quiet thumb-button"
      aria-pressed={rating === value}
      aria-label={`${label} answer ${number}`}
      title={`${label} answer`}
      onClick={() => void onRate({ ...now, rating: rating === value ? null : value })}
    >
      <Thumb isDown={value === "down"} />
    </button>
  );
  const save = async (change: Partial<NewRating>) => {
    if (await onRate({ ...now, ...change })) close();
  };
  return (
    <>
      {comment === null || editing === "comment" ? null : (
        <p class="comment">
          <span class="soft">Comment: </span>
          <ForeignText text={comment} length={1000} />
        </p>
      )}
      <div class="row">
        {thumb("up", "Good")}
        {thumb("down", "Bad")}
        {open("comment", "Comment on answer", "Comment")}
        {open("answer", "Edit answer", "Edit")}
        {answer === null ? null : (
          <button type="button" class="quiet" onClick={() => void save({ answer: null })}>
            Restore the recorded answer
          </button>
        )}
      </div>
      {editing === "comment" ? (
        <TextForm
          label={`Comment of answer ${number}`}
          text={comment ?? ""}
          limit={10_000}
          onSave={(text) => save({ comment: text.trim() === "" ? null : text })}
          onClose={close}
        />
      ) : null}
      {editing === "answer" ? (
        <TextForm
          label={`Edited answer ${number}`}
          text={answer ?? recorded}
          limit={262_144}
          onSave={(text) => save({ answer: text === recorded ? null : text })}
          onClose={close}
        >
          Training data has this text in place of the recorded answer.
        </TextForm>
      ) : null}
    </>
  );
}

/** A text that is saved or not. Escape cancels. */
function TextForm(props: {
  readonly label: string;
  readonly text: string;
  /** The server's limit, in UTF-16 code units. */
  readonly limit: number;
  readonly children?: ComponentChildren;
  readonly onSave: (text: string) => Promise<void>;
  readonly onClose: () => void;
}) {
  const [text, setText] = useState(props.text);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const rows = Math.min(16, Math.max(2, Math.ceil(text.length / 80), text.slice(0, 2000).split("\n").length));
  return (
    <form
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        void props.onSave(text);
      }}
      onKeyDown={(event) => event.key === "Escape" && !event.isComposing && props.onClose()}
    >
      <textarea
        aria-label={props.label}
        ref={field}
        rows={rows}
        maxLength={props.limit}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <div class="row">
        <button type="submit" class="main">
          Save
        </button>
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
        <span class="soft">{props.children}</span>
      </div>
    </form>
  );
}
