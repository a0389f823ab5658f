/** All checkpoints as a table grouped by run. A dialog has everything that can be done with one. */
import type { Checkpoint } from "@tinklet/wire";
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../api.ts";
import { groupCheckpoints, type SavedCheckpoint } from "../checkpoint-groups.ts";
import { formatAge, formatBytes, formatCount, formatTime } from "../format.ts";
import { Notice } from "../parts.tsx";
import { placeUrl } from "../router.ts";
import { runName } from "../run-lines.ts";
import { folders, now, problemText, runs } from "../store.ts";
import { oneLine } from "../text.ts";
import { VirtualRows } from "../virtual-rows.tsx";
import { CheckpointDialog } from "./checkpoint-dialog.tsx";

/** The server's limit of a page. */
const pageSize = 1000;
/** Maximum files in the page, which bounds its memory. */
const maxFiles = 10_000;
const rowHeight = (width: number): number => (width <= 720 ? 84 : 48);

/** The name of a run: its own, that of its folder, or its id. */
export function nameOfRun(runId: string): string {
  const run = runs.value?.find((one) => one.runId === runId);
  const name = run === undefined ? runId : runName(run);
  return name === runId ? (folders.value.find(({ runIds }) => runIds.includes(runId))?.name ?? runId) : name;
}

/** @returns all checkpoints, and how many there are */
async function listCheckpoints(): Promise<{ readonly found: readonly Checkpoint[]; readonly total: number }> {
  const found = new Map<string, Checkpoint>();
  for (let offset = 0; ; offset += pageSize) {
    const { checkpoints, cursor } = await call("listUserCheckpoints", { limit: pageSize, offset });
    for (const one of checkpoints) found.set(one.tinkerPath, one);
    const total = cursor?.totalCount ?? found.size;
    if (checkpoints.length < pageSize || offset + pageSize >= Math.min(total, maxFiles))
      return { found: [...found.values()], total };
  }
}

/** A row of the table: the head of a run's checkpoints, or one of them. */
type TableRow =
  | { readonly key: string; readonly runId: string; readonly label: string; readonly count: number }
  | SavedCheckpoint;

export function Checkpoints() {
  const [list, setList] = useState<Awaited<ReturnType<typeof listCheckpoints>>>();
  const [problem, setProblem] = useState<string>();
  const [confirmation, setConfirmation] = useState("");
  const [search, setSearch] = useState("");
  const [openKey, setOpenKey] = useState<string>();
  const load = () =>
    listCheckpoints().then(
      (loaded) => {
        setList(loaded);
        setProblem(undefined);
      },
      (error: unknown) => setProblem(problemText(error)),
    );
  useEffect(() => void load(), []);
  const act = async (message: string, work: () => Promise<unknown>) => {
    try {
      await work();
      await load();
      setConfirmation(message);
    } catch (error) {
      await load();
      setProblem(problemText(error));
    }
  };
  const [runList, folderList] = [runs.value, folders.value];
  const groups = useMemo(() => {
    const wanted = search.toLowerCase();
    return groupCheckpoints(list?.found ?? []).flatMap((group) => {
      const label = group.runName ?? nameOfRun(group.runId);
      const text = `${label} ${group.runId}`.toLowerCase();
      const matching = group.checkpoints.filter(({ name }) => `${text} ${name}`.toLowerCase().includes(wanted));
      return matching.length === 0 ? [] : [{ ...group, label, checkpoints: matching }];
    });
  }, [list, search, runList, folderList]);
  const rows = useMemo(
    () =>
      groups.flatMap(({ key, runId, label, checkpoints }): TableRow[] => [
        { key, runId, label, count: checkpoints.length },
        ...checkpoints,
      ]),
    [groups],
  );
  const openGroup = groups.find(({ checkpoints }) => checkpoints.some(({ key }) => key === openKey));
  const opened = openGroup?.checkpoints.find(({ key }) => key === openKey);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Checkpoints</h1>
        <button type="button" class="quiet" onClick={() => void load()}>
          Refresh
        </button>
        {list !== undefined && list.total > list.found.length ? (
          <span class="soft">
            the latest {formatCount(list.found.length)} of {formatCount(list.total)} files
          </span>
        ) : null}
      </div>
      <p class="said" role="status">
        {confirmation}
      </p>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {list === undefined ? (
        problem === undefined ? (
          <Notice kind="loading" title="Loading checkpoints …" />
        ) : null
      ) : list.found.length === 0 ? (
        <Notice kind="empty" title="No checkpoints yet.">
          <p>To save a checkpoint from a program:</p>
          <pre>await trainer.saveState("step-100")</pre>
        </Notice>
      ) : (
        <>
          <div class="row controls">
            <input
              type="search"
              aria-label="Search checkpoints"
              placeholder="Search by run or checkpoint"
              value={search}
              onInput={(event) => setSearch(event.currentTarget.value)}
            />
          </div>
          <Table rows={rows} onOpen={setOpenKey} />
        </>
      )}
      {opened === undefined ? null : (
        <CheckpointDialog
          key={opened.key}
          one={opened}
          runLabel={openGroup!.label}
          act={act}
          onClose={() => setOpenKey(undefined)}
        />
      )}
    </section>
  );
}

const columns = [
  ["Checkpoint", ""],
  ["Contains", "kinds-column"],
  ["Size", "number"],
  ["Saved", "saved-column"],
  ["Actions", "actions-column"],
] as const;

function Table({ rows, onOpen }: { readonly rows: readonly TableRow[]; readonly onOpen: (key: string) => void }) {
  return (
    <div class="scroll">
      <table class="list checkpoints" data-testid="checkpoints" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map(([word, kind]) => (
              <th key={word} scope="col" class={kind}>
                {word}
              </th>
            ))}
          </tr>
        </thead>
        <VirtualRows rows={rows} height={rowHeight} columns={columns.length}>
          {(row, i) =>
            "count" in row ? (
              <tr key={row.key} class="group-row" aria-rowindex={i + 2}>
                <th scope="rowgroup" colSpan={columns.length}>
                  <a href={placeUrl(["runs", row.runId])}>{oneLine(row.label, 60)}</a>{" "}
                  <span class="soft">
                    {row.count} {row.count === 1 ? "checkpoint" : "checkpoints"}
                  </span>
                </th>
              </tr>
            ) : (
              <CheckpointRow key={row.key} one={row} index={i + 2} onOpen={() => onOpen(row.key)} />
            )
          }
        </VirtualRows>
      </table>
    </div>
  );
}

function CheckpointRow(props: { readonly one: SavedCheckpoint; readonly index: number; readonly onOpen: () => void }) {
  const { one, index, onOpen } = props;
  const name = oneLine(one.name, 60);
  const weights = one.sampler ?? one.training;
  const expiresAt = one.files.flatMap((file) => file.expiresAt ?? [])[0];
  return (
    <tr aria-rowindex={index}>
      <th scope="row">
        <span class="clipped">{name}</span>
      </th>
      <td class="nowrap">
        {one.sampler === undefined ? null : <span class="tag">weights</span>}{" "}
        {one.training === undefined ? null : <span class="tag">training state</span>}{" "}
        {one.external === undefined ? null : <span class="tag">exported</span>}{" "}
        {one.files.some((file) => file.public) ? <span class="tag tag-public">Public</span> : null}
      </td>
      <td class="number">{formatBytes(one.files.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0))}</td>
      <td class="nowrap saved">
        <time dateTime={new Date(one.time).toISOString()} title={formatTime(one.time)}>
          {formatAge(one.time, now.value)}
        </time>
        {expiresAt === undefined ? null : <small>until {formatTime(expiresAt)}</small>}
      </td>
      <td class="nowrap actions">
        {weights === undefined ? null : (
          <a
            class="button quiet"
            href={placeUrl(["playground"], { model: one.sampler === undefined ? weights.tinkerPath : one.reference })}
            aria-label={`Chat with ${name}`}
          >
            Chat
          </a>
        )}{" "}
        <button type="button" class="quiet" aria-label={`More about ${name}`} onClick={onOpen}>
          More
        </button>
      </td>
    </tr>
  );
}
