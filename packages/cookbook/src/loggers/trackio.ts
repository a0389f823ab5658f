/** Trackio: rows posted to a Trackio server (`trackio show`, a server of your own, or a Space) by its `bulk_log` call. */
import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { InvalidInputError, TinkerError } from "@tinklet/sdk";
import { checkOptions, omitUndefined } from "@tinklet/wire/options";
import type { LoggedRow, LoggedRun, MetricsLogger, MetricsWriter } from "./metrics-logger.ts";

/** Options of {@link trackio}. */
export interface TrackioOptions {
  /** @defaultValue "tinklet" */
  readonly project?: string;
  /**
   * The server, for example the link that `trackio show` prints, with its `write_token`.
   * @defaultValue the variable `TRACKIO_SERVER_URL`, or the Space that `TRACKIO_SPACE_ID` names
   */
  readonly url?: string;
  /** What lets one write there. @defaultValue that of the URL, or the variable `TRACKIO_WRITE_TOKEN` */
  readonly writeToken?: string;
  /** For a Space: a Hugging Face token; no other host ever gets it. @defaultValue the variable `HF_TOKEN` */
  readonly hfToken?: string;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
}

/** File of the run's id, so that a resumed run is the same run in Trackio. */
const idFile = "trackio.json";

/**
 * Logs to Trackio. Rows carry an id each: one that is sent twice is shown once.
 *
 * @throws InvalidInputError when no server is named, or its URL is invalid.
 *
 * @example
 * ```ts
 * const loggers = [trackio({ project: "sums", url: "http://127.0.0.1:7860/?write_token=…" })];
 * for await (const event of withLoggers(runSupervised(options), loggers)) console.log(event.type);
 * ```
 */
export function trackio(options: TrackioOptions = {}): MetricsLogger {
  checkOptions("trackio", options, { project: true, url: true, writeToken: true, hfToken: true, fetch: true });
  const server = serverOf(options);
  return {
    name: "trackio",
    async open(run) {
      return writerOf(run, await idOf(run), { ...options, server });
    },
  };
}

interface Server {
  /** Ends with a slash. */
  readonly base: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly hfToken: string | undefined;
}

function serverOf(options: TrackioOptions): Server {
  const { TRACKIO_SERVER_URL, TRACKIO_SPACE_ID, TRACKIO_WRITE_TOKEN, HF_TOKEN } = process.env;
  const named = options.url ?? (TRACKIO_SERVER_URL || (TRACKIO_SPACE_ID && spaceUrl(TRACKIO_SPACE_ID)));
  if (named === undefined || named === "")
    throw new InvalidInputError("url", "the Trackio server is not named", {
      hint: "Set TRACKIO_SERVER_URL to the link with the write_token that trackio show prints, or TRACKIO_SPACE_ID to a Space.",
    });
  const base = URL.canParse(named) ? new URL(named) : undefined;
  if (base === undefined || !/^https?:$/.test(base.protocol))
    throw new InvalidInputError("url", "must begin with http:// or https://");
  const token = options.writeToken ?? base.searchParams.get("write_token") ?? (TRACKIO_WRITE_TOKEN || undefined);
  base.search = "";
  base.hash = "";
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  const isSpace = base.protocol === "https:" && base.hostname.endsWith(".hf.space");
  const hfToken = isSpace ? (options.hfToken ?? (HF_TOKEN || undefined)) : undefined;
  return {
    base,
    hfToken,
    headers: omitUndefined({
      "content-type": "application/json",
      "x-trackio-write-token": token,
      authorization: hfToken === undefined ? undefined : `Bearer ${hfToken}`,
    }),
  };
}

/** A Space's own host, as Hugging Face names it. */
const spaceUrl = (id: string) => `https://${id.toLowerCase().replace(/[/_.]/g, "-")}.hf.space/`;

/** The run's id: the one that is in its folder, or a new one. */
async function idOf({ folder }: LoggedRun): Promise<string> {
  const path = join(folder, idFile);
  try {
    const { run_id } = JSON.parse(await readFile(path, "utf8")) as { readonly run_id?: unknown };
    if (typeof run_id === "string") return run_id;
  } catch {
    // none yet
  }
  const id = randomUUID();
  await writeFile(path, `${JSON.stringify({ run_id: id })}\n`).catch(() => {}); // without the file, a resumed run is shown as a second one
  return id;
}

function writerOf(
  { name, config }: LoggedRun,
  id: string,
  { project = "tinklet", server, fetch: send = fetch }: TrackioOptions & { readonly server: Server },
): MetricsWriter {
  return {
    async write(rows, signal) {
      const logs = rows.map((row) => ({
        project,
        run: name,
        run_id: id,
        step: row.step,
        metrics: plain(row),
        log_id: `${id}-${row.step}-${kindOf(row)}`,
        config,
      }));
      const { base, headers, hfToken } = server;
      const body = JSON.stringify({ logs, hf_token: hfToken ?? null });
      const response = await send(new URL("api/bulk_log", base), { method: "POST", headers, body, signal }).catch(
        (cause: Error) => {
          throw new TinkerError(`cannot reach ${base.origin}: ${reason(cause)}`, { code: "connection_failed", cause });
        },
      );
      const text = (await response.text()).slice(0, 500);
      if (!response.ok)
        throw new TinkerError(`${base.origin} answered ${response.status}: ${text}`, { code: "refused" });
    },
  };
}

/** Rows of a step differ by what they hold: a step that is repeated has the same ids. */
const kindOf = ({ metrics }: LoggedRow) => Object.keys(metrics).sort()[0] ?? "";

/** JSON has no NaN and no infinities: Trackio reads these strings as such. */
const plain = ({ metrics }: LoggedRow): Record<string, number | string> =>
  Object.fromEntries(
    Object.entries(metrics).map(([name, value]) => [name, Number.isFinite(value) ? value : String(value)]),
  );

const reason = (cause: Error & { cause?: unknown }): string =>
  cause.cause instanceof Error ? cause.cause.message : cause.message;
