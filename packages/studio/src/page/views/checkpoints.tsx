/** The list of checkpoints: publish, set a time to live, download, delete with a confirmation, and copy commands that use them. */
import type { Checkpoint } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { formatAge, formatBytes, formatTime } from "../format.ts";
import { Confirm, CopyButton, Notice } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { now, problemText } from "../store.ts";
import { oneLine } from "../text.ts";

const pageSize = 100;
const kinds = { training: "Training state", sampler: "For sampling", external: "Exported" } as const;
const ttls = [
  ["", "Keep permanently"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
  ["604800", "7 days"],
  ["2592000", "30 days"],
] as const;

/** Parses the run id and the checkpoint id of a path `tinker://RUN/KIND/NAME`. */
export function placeOf(path: string): { readonly trainingRunId: string; readonly checkpointId: string } {
  const [run = "", ...rest] = path.replace(/^tinker:\/\//, "").split("/");
  return { trainingRunId: run, checkpointId: rest.join("/") };
}

export function Checkpoints() {
  const [found, setFound] = useState<readonly Checkpoint[]>();
  const [total, setTotal] = useState(0);
  const [problem, setProblem] = useState<string>();
  const [confirmation, setConfirmation] = useState("");
  const [deleting, setDeleting] = useState<Checkpoint>();
  const load = async (limit = Math.max(pageSize, found?.length ?? 0)) => {
    try {
      const { checkpoints, cursor } = await call("listUserCheckpoints", { limit });
      setFound(checkpoints);
      setTotal(cursor?.totalCount ?? checkpoints.length);
      setProblem(undefined);
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  useEffect(() => void load(), []);
  const act = async (message: string, work: () => Promise<unknown>) => {
    try {
      await work();
      setConfirmation(message);
      setProblem(undefined);
    } catch (error) {
      setProblem(problemText(error));
    }
    await load();
  };
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Checkpoints</h1>
        <button type="button" onClick={() => void load()}>
          Refresh
        </button>
      </div>
      <p class="said" role="status">
        {confirmation}
      </p>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {found === undefined ? (
        problem === undefined ? (
          <Notice kind="loading" title="Loading checkpoints …" />
        ) : null
      ) : found.length === 0 ? (
        <Notice kind="empty" title="No checkpoints yet.">
          <p>To save a checkpoint from a program:</p>
          <pre>await trainer.saveState("step-100")</pre>
        </Notice>
      ) : (
        <ul class="cards" data-testid="checkpoints">
          {found.map((one) => (
            <Card key={one.tinkerPath} one={one} act={act} onDelete={() => setDeleting(one)} />
          ))}
        </ul>
      )}
      {found !== undefined && found.length < total ? (
        <button type="button" onClick={() => void load(found.length + pageSize)}>
          Show more ({total - found.length})
        </button>
      ) : null}
      {deleting === undefined ? null : (
        <Confirm
          title="Delete this checkpoint?"
          action="Delete permanently"
          onConfirm={() =>
            void act("The checkpoint was deleted.", () => call("deleteCheckpoint", placeOf(deleting.tinkerPath)))
          }
          onClose={() => setDeleting(undefined)}
        >
          <p>
            <code class="foreign">{oneLine(deleting.tinkerPath, 200)}</code>
          </p>
          <p>Its weights cannot be restored. Samplers created from it stop working.</p>
        </Confirm>
      )}
    </section>
  );
}

interface CardProps {
  readonly one: Checkpoint;
  readonly act: (message: string, work: () => Promise<unknown>) => Promise<void>;
  readonly onDelete: () => void;
}

function Card({ one, act, onDelete }: CardProps) {
  const at = placeOf(one.tinkerPath);
  const name = one.checkpointId.split("/").at(-1) ?? one.checkpointId;
  const command =
    one.checkpointType === "training"
      ? `tinklet train data.jsonl --from ${one.tinkerPath}`
      : `tinklet chat --from ${one.tinkerPath}`;
  const download = () =>
    act("The download has started.", async () => {
      const { url } = await call("getCheckpointArchiveUrl", at);
      location.assign(url);
    });
  const keep = (seconds: string) =>
    act(seconds === "" ? "The checkpoint is kept permanently." : "The time to live was set.", () =>
      call("setCheckpointTtl", { ...at, ttlSeconds: seconds === "" ? null : Number(seconds) } as never),
    );
  return (
    <li class="card">
      <div class="card-head">
        <h2>{oneLine(name, 60)}</h2>
        <span class="tag">{kinds[one.checkpointType as keyof typeof kinds] ?? one.checkpointType}</span>
        {one.public ? <span class="tag tag-public">Public</span> : null}
      </div>
      <p class="soft">
        <a href={placeUrl(["runs", at.trainingRunId])}>{oneLine(at.trainingRunId, 60)}</a> ·{" "}
        {formatBytes(one.sizeBytes ?? 0)} ·{" "}
        <time dateTime={one.time.toISOString()} title={formatTime(one.time)}>
          {formatAge(one.time, now.value)}
        </time>
        {one.expiresAt === undefined ? "" : ` · until ${formatTime(one.expiresAt)}`}
      </p>
      <div class="row">
        {one.checkpointType === "external" ? null : (
          <a class="button" href={placeUrl(["playground"], { model: one.tinkerPath })}>
            Try it
          </a>
        )}
        <CopyButton
          text={command}
          label={one.checkpointType === "training" ? "Copy resume command" : "Copy chat command"}
        />
        <CopyButton text={one.tinkerPath} label="Copy path" />
        {one.checkpointType === "external" ? null : (
          <CopyButton text={`tinklet export ${one.tinkerPath} --format gguf`} label="Copy export command" />
        )}
        <button type="button" class="quiet" onClick={() => void download()}>
          Download
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() =>
            void act(one.public ? "The checkpoint is private." : "The checkpoint is public.", () =>
              call(one.public ? "unpublishCheckpoint" : "publishCheckpoint", at),
            )
          }
        >
          {one.public ? "Make private" : "Publish"}
        </button>
        <select
          aria-label={`How long to keep ${oneLine(name, 60)}`}
          value="-"
          onChange={(event) => void keep(event.currentTarget.value)}
        >
          <option value="-" disabled>
            Keep for …
          </option>
          {ttls.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
        <button type="button" class="danger quiet" aria-label={`Delete ${oneLine(name, 60)}`} onClick={onDelete}>
          Delete
        </button>
      </div>
    </li>
  );
}
