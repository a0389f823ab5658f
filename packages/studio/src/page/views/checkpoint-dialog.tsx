/** Everything that can be done with a checkpoint: copy commands and paths, download, publish, set an expiry, delete. */
import type { Checkpoint } from "@tinklet/wire";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api.ts";
import { placeOf, type SavedCheckpoint } from "../checkpoint-groups.ts";
import { formatBytes, formatTime } from "../format.ts";
import { Confirm, CopyButton } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { oneLine } from "../text.ts";

const kinds = { training: "Training state", sampler: "Weights for sampling", external: "Exported weights" } as const;
const ttls = [
  ["3600", "1 hour"],
  ["86400", "1 day"],
  ["604800", "7 days"],
  ["2592000", "30 days"],
  ["", "permanently"],
] as const;

export function CheckpointDialog(props: {
  readonly one: SavedCheckpoint;
  readonly runLabel: string;
  readonly act: (message: string, work: () => Promise<unknown>) => Promise<void>;
  readonly onClose: () => void;
}) {
  const { one, act, onClose } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const [isDeleting, setDeleting] = useState(false);
  const [ttl, setTtl] = useState<string>(ttls[2][0]);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const { sampler, training, files } = one;
  const weights = sampler ?? training;
  const isPublic = files.some((file) => file.public);
  /** Does the same with each file, one after the other. */
  const each = (message: string, work: (at: ReturnType<typeof placeOf>) => Promise<unknown>) =>
    act(message, async () => {
      for (const file of files) await work(placeOf(file.tinkerPath));
    });
  return (
    <dialog
      ref={dialog}
      class="wide"
      aria-labelledby="checkpoint-title"
      onClose={(event) => event.target === event.currentTarget && onClose()}
    >
      <div class="head">
        <h2 id="checkpoint-title">{oneLine(one.name, 80)}</h2>
        {isPublic ? <span class="tag tag-public">Public</span> : null}
      </div>
      <p class="soft">
        of the run <a href={placeUrl(["runs", one.runId])}>{oneLine(props.runLabel, 60)}</a>
      </p>
      <ul class="files">
        {files.map((file) => (
          <FileRow key={file.tinkerPath} file={file} act={act} />
        ))}
      </ul>
      <h3>Commands</h3>
      <div class="row">
        {weights === undefined ? null : (
          <>
            <CopyButton text={`npx tinklet chat --from ${one.reference}`} label="Copy chat command" />
            <CopyButton text={`npx tinklet export ${one.reference} --format gguf`} label="Copy export command" />
          </>
        )}
        {training === undefined ? null : (
          <CopyButton text={`npx tinklet train data.jsonl --from ${one.reference}`} label="Copy resume command" />
        )}
      </div>
      <h3>Keep</h3>
      <div class="row">
        <select aria-label="How long to keep it" value={ttl} onChange={(event) => setTtl(event.currentTarget.value)}>
          {ttls.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
        <button
          type="button"
          class="quiet"
          onClick={() =>
            void each(
              ttl === "" ? "The checkpoint is kept permanently." : "The time to live was set.",
              // null removes the limit; the codec's type has no null
              (at) => call("setCheckpointTtl", { ...at, ttlSeconds: ttl === "" ? null : Number(ttl) } as never),
            )
          }
        >
          Set
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() =>
            void each(isPublic ? "The checkpoint is private." : "The checkpoint is public.", (at) =>
              call(isPublic ? "unpublishCheckpoint" : "publishCheckpoint", at),
            )
          }
        >
          {isPublic ? "Make private" : "Publish"}
        </button>
      </div>
      <div class="row end">
        <button type="button" class="danger quiet" onClick={() => setDeleting(true)}>
          Delete …
        </button>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
      {isDeleting ? (
        <Confirm
          title="Delete this checkpoint?"
          action="Delete permanently"
          onConfirm={() => void each("The checkpoint was deleted.", (at) => call("deleteCheckpoint", at))}
          onClose={() => setDeleting(false)}
        >
          {files.map(({ tinkerPath }) => (
            <p key={tinkerPath}>
              <code class="foreign">{oneLine(tinkerPath, 200)}</code>
            </p>
          ))}
          <p>
            {files.length > 1 ? "Both files cannot be restored." : "Its weights cannot be restored."} Samplers created
            from it stop working.
          </p>
        </Confirm>
      ) : null}
    </dialog>
  );
}

function FileRow({
  file,
  act,
}: {
  readonly file: Checkpoint;
  readonly act: (message: string, work: () => Promise<unknown>) => Promise<void>;
}) {
  const kind = kinds[file.checkpointType as keyof typeof kinds] ?? oneLine(file.checkpointType, 40);
  const download = () =>
    act("The download has started.", async () => {
      const { url } = await call("getCheckpointArchiveUrl", placeOf(file.tinkerPath));
      location.assign(url);
    });
  return (
    <li>
      <strong>{kind}</strong>{" "}
      <span class="soft">
        {formatBytes(file.sizeBytes ?? 0)}, {formatTime(file.time)}
        {file.expiresAt === undefined ? "" : `, until ${formatTime(file.expiresAt)}`}
      </span>
      <code class="foreign">{oneLine(file.tinkerPath, 200)}</code>
      <span class="row">
        <CopyButton text={file.tinkerPath} label="Copy path" />
        <button type="button" class="quiet" onClick={() => void download()}>
          Download
        </button>
      </span>
    </li>
  );
}
