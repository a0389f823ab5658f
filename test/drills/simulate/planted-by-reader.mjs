/**
 * Defects planted by a reader of the sources who did not write the simulator and did not read it: of its folder, only the list of defects
 * was seen, for its format. Each is a mistake that a change of the named file could make. Fields as in that list: `name` is the id, `find`
 * occurs exactly once in `file`. `breaks` is the promise that no longer holds.
 */
const server = "packages/server/src";
const sdk = "packages/sdk/src";

export const defects = [
  // ── client: submission ────────────────────────────────────────────────────────────────────────────────────────────────────────────
  {
    // How it shows: `step()` is aborted after its pass was sent and before its optimizer step, or a call that waits behind it is aborted. The
    // next call starts at once and draws the number between the two: its pass runs before the optimizer step of the earlier call. A batch
    // whose chunks are sent one by one is cut in the same way. If the earlier call then loses a number, nobody fills the gap before the
    // later call, which waits 330 s on the server.
    name: "abort-frees-the-line",
    does: "the next call is submitted as soon as the one before it is aborted, although that one is still sending",
    breaks: "in order: the requests of a later call come between those of an earlier one",
    file: `${sdk}/clients/training/submission-queue.ts`,
    find: "    this.#tail = turn.then(done, done); // one failure must not block the queue\n    return untilAborted(turn, signal);",
    replace:
      "    const result = untilAborted(turn, signal);\n    this.#tail = result.then(done, done); // one failure must not block the queue\n    return result;",
  },

  // ── client: futures ───────────────────────────────────────────────────────────────────────────────────────────────────────────────
  {
    // How it shows: a batch of at least two chunks, and the poll of a later chunk returns first (a slow, lost or repeated poll of an
    // earlier one). `lossFnOutputs` are then in the order of arrival, so that outputs belong to other data; the sums stay right.
    name: "results-as-they-arrive",
    does: "the results of a batch's chunks are combined in the order in which their polls return",
    breaks: "the right value: the outputs of a batch are not in the order of its data",
    file: `${sdk}/clients/training/pass.ts`,
    find: "  const outputs = await together(signal, (inner) =>\n    accepted.map((chunk) => pollFuture(session.poll, { ...chunk, requestType, subject, signal: inner, progress })),\n  );",
    replace:
      "  const outputs: ForwardBackwardOutput[] = [];\n  await together(signal, (inner) =>\n    accepted.map(async (chunk) => {\n      outputs.push(await pollFuture(session.poll, { ...chunk, requestType, subject, signal: inner, progress }));\n    }),\n  );",
  },

  // ── client: dispatch of samples ───────────────────────────────────────────────────────────────────────────────────────────────────
  {
    // How it shows: without `retrieve_futures`, on a server that lets samples be cancelled, one poll of a sample that is waiting or running
    // is answered with 409 (or another status with `x-should-retry: true`). The client cancels the sample on the server and then asks for
    // its result again: the call, which nobody cancelled, fails with "The sample was cancelled by its client."
    name: "abandons-what-it-retries",
    does: "a sample is cancelled on the server after every failed poll, also when its result is asked for again",
    breaks: "the right value: a call that nobody cancelled fails as cancelled after a failure that passes",
    file: `${sdk}/clients/sampling/sample-dispatch.ts`,
    find: "    if (signal.aborted) session.abandon(requestId);\n",
    replace: "    session.abandon(requestId);\n",
  },

  // ── server: queue ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
  {
    // How it shows: a snapshot is taken after an optimizer step while the server runs (`snapshotWorthMs` of engine time). The step's own
    // commit, and those of passes before it, follow later. The snapshot contains them and is recorded below them. After the next restore
    // (crash, restart, death of the engine, eviction) they are replayed on top of it: the step is applied twice. Until then nothing shows.
    name: "snapshot-position-too-low",
    does: "a snapshot's position is read when it is exported, before the requests that it contains are committed",
    breaks: "exactly once: requests that a snapshot contains are applied again when the model is restored",
    file: `${server}/queue/training/model-runner.ts`,
    edits: [
      {
        find: "    const adapter = this.#adapter;\n    this.#snapshotting = true;",
        replace:
          "    const adapter = this.#adapter;\n    const executed = this.#executed;\n    this.#snapshotting = true;",
      },
      {
        find: "        const executed = this.#executed;\n        const bytes = await written;",
        replace: "        const bytes = await written;",
      },
    ],
  },
  {
    // How it shows: a pass with a custom loss and, before its result, an optimizer step or another pass of the same model. Between the
    // engine's forward and its forward-backward the loss is computed on a side thread; in that time the second training call of the queue
    // starts. The step is applied without the gradient of the pass before it, and the gradient counts in the next step. A replay runs the
    // calls one after the other, so that a restored model differs as well.
    name: "custom-loss-shares-the-engine",
    does: "another request of the model may start between the two engine calls of a custom loss",
    breaks: "in order: an optimizer step overtakes the pass before it",
    file: `${server}/queue/training/model-runner.ts`,
    find: "    if (job.resolvedParams.customLoss !== undefined || job.recovered) return true;",
    replace: "    if (job.recovered) return true;",
  },
  {
    // How it shows: the answer to a `retrieve_futures` is lost after the server made it, or the client hangs up (the last waiting sample is
    // cancelled) while it is on its way. The client asks again with its old cursor, and the log no longer has the page: the samples on it
    // wait until the server restarts or the client's stuck detection ends them. The first page of a log is not lost, because cursor 0
    // makes the log from the database again.
    name: "page-sent-is-page-seen",
    does: "completions are dropped from the log when they are sent, and not when the next poll's cursor shows that they arrived",
    breaks: "a result within bounded time: a sample whose completion was on a lost answer waits for hours",
    file: `${server}/queue/sampling/finished-samples.ts`,
    find: "    const completions = log.events.slice(0, pageSize);",
    replace: "    const completions = log.events.splice(0, pageSize);",
  },
  {
    // How it shows: the process is killed while it runs two chunks of one batch. The client sends chunk 0 last, so that it has the higher
    // id, and the lower number. After the restart both are quarantined, the first by id is chunk 1, and chunk 1 cannot run before chunk 0,
    // which may not start. Nothing of any tenant runs on this server any more, also after further restarts.
    name: "quarantine-blocks-its-own-model",
    does: "while a request is quarantined, the requests before it of the same model may not start",
    breaks: "recovery after a crash: accepted requests of all tenants never end",
    file: `${server}/queue/scheduling/crash-quarantine.ts`,
    find: "    return first === undefined || first === job || (job.modelId !== undefined && job.modelId === first.modelId);",
    replace: "    return first === undefined || first === job;",
  },

  // ── server: store ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
  {
    // How it shows: a power failure while the log is synced, when the mark was synced already (it is synced at the first commit of a process
    // and then once per second, without waiting for the log). The mark is then ahead of the database: the next start fails with
    // `lost_commits` and asks for a backup, although no acknowledged commit is missing. A kill does not show it.
    name: "mark-before-sync",
    does: "the commit mark is raised before the log is synced",
    breaks: "recovery after a crash: the server refuses a data folder that has lost nothing",
    file: `${server}/store/database.ts`,
    find: "        syncing = durable(files.syncLog);\n        await syncing;\n        mark?.raise(commits);",
    replace: "        mark?.raise(commits);\n        syncing = durable(files.syncLog);\n        await syncing;",
  },
  {
    // How it shows: a crash after the rows of deleted checkpoints, samplers or old snapshots are committed and before their folders are
    // removed (or a power failure that undoes the removal). The next start finds folders that belong to no row and have no marker, takes
    // them for those of another database and moves them to `lost/`, where they stay for ever.
    name: "deleted-without-a-mark",
    does: "a folder is not marked as unowned before its row is deleted",
    breaks: "nothing left behind: after a crash deleted weights stay on the disk as found folders of an unknown server",
    file: `${server}/store/store.ts`,
    find: "        for (const id of candidates) await files.markOwned(id, false).catch(unlessFull);\n",
    replace: "",
  },

  // ── time to live ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────
  {
    // How it shows: a checkpoint with a `ttlSeconds` is loaded, or sampled from, by its owner after its end and before the next sweep, which
    // comes once a minute, or after a start of the server, whose first sweep is a minute later. Lists do not show it any more, and other
    // tenants get the error. A load makes it the snapshot of a model, so that its files outlive their time as well.
    name: "owner-reads-expired",
    does: "a checkpoint that has expired is readable by its owner until the sweep deletes it",
    breaks: "time to live: expired weights are served instead of the error that they do not exist",
    file: `${server}/queue/training/checkpoint-jobs.ts`,
    find: "  const allowed = row !== undefined && (row.public === 1 || tenants.includes(row.tenant));\n  return allowed && isLive(row, now) ? row : undefined;",
    replace:
      "  if (row !== undefined && tenants.includes(row.tenant)) return row;\n  return row?.public === 1 && isLive(row, now) ? row : undefined;",
  },
];
