/** Defects for the simulator to find, as replacements of source text that the bundler makes. None of them is in the sources. */
import { defects as byReader } from "./planted-by-reader.mjs";

const server = "packages/server/src";
const sdk = "packages/sdk/src";

/** Planted by the author of the simulator. */
const byAuthor = [
  {
    name: "hang-after-retry",
    does: "a sample that is sent again waits for its completion anew, which is reported once",
    file: `${sdk}/clients/sampling/sample-dispatch.ts`,
    find: "submission.completed ??= (await",
    replace: "submission.completed = (await",
  },
  {
    name: "lost-fsync",
    does: "a commit is not synced",
    file: `${server}/store/database-files.ts`,
    find: "syncLog: () => sync(logFile()),",
    replace: "syncLog: () => Promise.resolve(void logFile()),",
  },
  {
    name: "early-acknowledgement",
    does: "a request is acknowledged before its commit is on the disk",
    file: `${server}/store/database.ts`,
    edits: [
      {
        find: "syncing = durable(files.syncLog);",
        replace: "for (const settle of outcomes) settle(); syncing = durable(files.syncLog);",
      },
      { find: "synced: () => syncing,", replace: "synced: () => undefined," }, // a second guard: answers wait for the sync as well
    ],
  },
  {
    name: "reused-number",
    does: "a number that is used already is accepted for another request, and answered with that one's result",
    file: `${server}/queue/queue.ts`,
    find: "if (known.fingerprint !== request.fingerprint) throw",
    replace: "if (known.id < 0) throw",
  },
  {
    name: "no-duplicate-check",
    does: "a request that arrives twice gets a second row where its number was not stored",
    file: `${server}/queue/queue.ts`,
    find: "const known = findRequest(sql, of, owner, request.seq);",
    replace:
      "const known = Math.floor(request.seq as number) % 3 === 2 ? undefined : findRequest(sql, of, owner, request.seq);",
  },
  {
    name: "retry-with-new-number",
    does: "a training request that fails on the way is sent again under the next number",
    file: `${sdk}/clients/training/submission-queue.ts`,
    find: "    return await send(seqId);\n  } catch (error) {",
    replace:
      "    return await send(seqId);\n  } catch (error) {\n    if (!isRefusal(error) && !(error instanceof InvalidInputError)) return await send(slot.draw());",
  },
  {
    name: "missed-wake-up",
    does: "a poll that waits is not told that its request is over",
    file: `${server}/queue/sampling/finished-samples.ts`,
    find: "    log.events.push({ ...completion, cursor: ++this.#cursor });\n    wake(log);",
    replace: "    if (log.waiters.size === 0) log.events.push({ ...completion, cursor: ++this.#cursor });",
  },
  {
    name: "no-tenant-check",
    does: "a model is served to whoever names it",
    file: `${server}/http/access/access.ts`,
    find: 'if (row === undefined || row.tenant !== caller.tenant) throw missing("model", id);',
    replace: 'if (row === undefined) throw missing("model", id);',
  },
  {
    name: "replay-skips-steps",
    does: "a model that is restored does not run its optimizer steps again",
    file: `${server}/queue/training/model-runner.ts`,
    find: "        await this.#timed(engine.optimStep(adapter, optimParams(payload)));\n        this.#gradientsClean = true;\n        this.#meter.reset();",
    replace: "        this.#gradientsClean = true;\n        this.#meter.reset();",
  },
  {
    name: "chunks-out-of-order",
    does: "the requests of a batch are numbered backwards",
    file: `${sdk}/clients/training/chunk-submission.ts`,
    find: "      outcomes[i] = await sender.send(chunks[i]!, first + i);",
    replace: "      outcomes[i] = await sender.send(chunks[i]!, first + chunks.length - 1 - i);",
  },
  {
    name: "folder-never-removed",
    does: "files that nothing needs lose their row and keep their folder",
    file: `${server}/store/store.ts`,
    find: "for (const id of dropped) await files.removeFolder(id);",
    replace: "",
  },
  {
    name: "rename-not-synced",
    does: "a checkpoint's folder is not synced into its parent",
    file: `${server}/store/files/file-store.ts`,
    find: "          await syncFolder(folders);\n          onPoint",
    replace: "          onPoint",
  },
  {
    name: "clock-cursor",
    does: "a cursor of a process whose clock was ahead is believed (found in the sources by seed 85)",
    file: `${server}/queue/sampling/finished-samples.ts`,
    find: "const after = asked > this.#cursor ? 0 : asked;",
    replace: "const after = asked;",
  },
  {
    name: "timer-left",
    does: "the poller's report outlives its session (found in the sources by seed 2)",
    file: `${sdk}/clients/session/futures-poller.ts`,
    find: "this.#session.later(reportMs",
    replace: "this.#session.background.timer(reportMs",
  },
];

export const defects = [...byAuthor, ...byReader];
