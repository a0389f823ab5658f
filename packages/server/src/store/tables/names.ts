/**
 * Names of training runs (docs/decisions/0023-names.md): unique per tenant, except that a run that resumes another one shares its name.
 * Lookups read rows of one tenant only, so a tenant cannot learn another tenant's names.
 */
import { ParsedCheckpointTinkerPath, parseJson } from "@tinklet/wire";
import { randomHex } from "@tinklet/wire/entropy";
import { nameKey, resumedFromKey, runNameFrom, runNameStem } from "@tinklet/wire/run-name";
import type { Database, Sql } from "../database.ts";
import { type CheckpointRow, importedBy, isLiveSql, type ModelRow } from "./models.ts";
import type { SessionRow } from "./sessions.ts";

/** Names that runs cannot have: those of the served models. */
export type IsReserved = (name: string) => boolean;

/** What the name of a new run is made from. */
export interface Naming {
  /** A valid name, which gets a suffix if it is not free. */
  readonly wanted: string;
  /** The run that this one resumes, as sent by the client: it may not exist, or belong to another tenant. */
  readonly resumedRun: string | undefined;
}

type NamedSession = Pick<SessionRow, "display_name" | "user_metadata" | "sdk_version">;

/** The naming of a run, from what its client sent with the model and with the session. */
export function namingOf(modelMetadata: unknown, session: NamedSession): Naming {
  const own = (modelMetadata ?? {}) as Record<string, unknown>;
  const shared = parseJson(session.user_metadata) as Record<string, unknown>;
  const sources = [own[nameKey], session.display_name, shared["program"]];
  const found = sources.map((source) => (typeof source === "string" ? runNameFrom(source) : undefined));
  const fallback = session.sdk_version === "copy_weights" ? "copy" : "run";
  return { wanted: found.find((name) => name !== undefined) ?? fallback, resumedRun: runOfPath(own[resumedFromKey]) };
}

function runOfPath(path: unknown): string | undefined {
  if (typeof path !== "string" || path.length > 1000) return undefined;
  try {
    return ParsedCheckpointTinkerPath.fromTinkerPath(path).trainingRunId;
  } catch {
    return undefined;
  }
}

/** The name for a new run. Call it in the transaction that stores the run. */
export function assignName(sql: Sql, tenant: string, naming: Naming, isReserved: IsReserved): string {
  const { wanted, resumedRun } = naming;
  const resumed =
    resumedRun === undefined
      ? undefined
      : sql.get<{ name: string | null }>("SELECT name FROM models WHERE id = ? AND tenant = ?", resumedRun, tenant);
  return resumed?.name ?? freeName(wanted, (name) => isReserved(name) || isNamed(sql, tenant, name));
}

const isNamed = (sql: Sql, tenant: string, name: string): boolean =>
  sql.get("SELECT 1 FROM models WHERE tenant = ? AND name = ? LIMIT 1", tenant, name) !== undefined;

/** Numbers above it are not tried: 13 digits fit into a name. */
const maxNumber = 2 ** 40;

/**
 * `wanted`, or `wanted-N` with a free N. Finds N by doubling and bisection, which takes at most 80 lookups for any number of taken names. N is
 * the lowest free number unless there are gaps.
 */
export function freeName(wanted: string, isTaken: (name: string) => boolean): string {
  if (!isTaken(wanted)) return wanted;
  const stem = runNameStem(wanted);
  const numbered = (n: number) => `${stem}-${n}`;
  let [taken, free] = [1, 2];
  while (isTaken(numbered(free))) {
    if (free >= maxNumber) return `${stem}-${randomHex(6)}`; // a tenant has chosen these names on purpose
    [taken, free] = [free, free * 2];
  }
  while (free - taken > 1) {
    const middle = Math.floor((taken + free) / 2);
    if (isTaken(numbered(middle))) taken = middle;
    else free = middle;
  }
  return numbered(free);
}

/** The name of a run; `undefined` for imported adapters. */
export const nameOfRun = (sql: Sql, id: string): string | undefined =>
  sql.get<{ name: string | null }>("SELECT name FROM models WHERE id = ?", id)?.name ?? undefined;

/** Runs per transaction of {@link nameRuns}. */
const batch = 500;

/** Names the runs of releases before names, oldest first. After a crash the next call resumes with the rows that are left. */
export async function nameRuns(db: Database, isReserved: IsReserved): Promise<number> {
  type Row = Pick<ModelRow, "id" | "tenant"> & NamedSession & { readonly own: string | null };
  let total = 0;
  for (;;) {
    const named = await db.write((sql) => {
      const rows = sql.all<Row>(
        `SELECT models.id, models.tenant, models.user_metadata AS own, display_name, sessions.user_metadata, sdk_version
         FROM models JOIN sessions ON sessions.id = session_id WHERE models.name IS NULL AND sdk_version <> ?
         ORDER BY models.created_at, models.id LIMIT ?`,
        importedBy,
        batch,
      );
      for (const { id, tenant, own, ...session } of rows) {
        const naming = namingOf(own === null ? undefined : parseJson(own), session);
        sql.run("UPDATE models SET name = ? WHERE id = ?", assignName(sql, tenant, naming, isReserved), id);
      }
      return rows.length;
    });
    total += named;
    if (named < batch) return total;
  }
}

/**
 * The checkpoint that a reference means: of a name (own runs), or of a run id (own or published checkpoints). Prefers sampler weights to
 * training state, then newer checkpoints.
 *
 * @param names - the names that the checkpoint may have, the preferred one first; `undefined` for the newest
 */
export function findSaved(
  sql: Sql,
  place: { readonly tenant: string; readonly now: number } & ({ readonly name: string } | { readonly runId: string }),
  names: readonly string[] | undefined,
): CheckpointRow | undefined {
  const { tenant, now } = place;
  const [where, key] =
    "name" in place
      ? ["models.tenant = ? AND models.name = ?", place.name]
      : ["(checkpoints.tenant = ? OR public = 1) AND models.id = ?", place.runId];
  const wanted = names === undefined ? "" : `AND checkpoints.name IN (${names.map(() => "?").join(", ")})`;
  return sql.get<CheckpointRow>(
    `SELECT checkpoints.* FROM models JOIN checkpoints ON run_id = models.id
     WHERE ${where} AND kind <> 'external_weights' AND ${isLiveSql} ${wanted}
     ORDER BY checkpoints.name = ? DESC, kind = 'sampler_weights' DESC, checkpoints.created_at DESC, run_id DESC, checkpoints.name LIMIT 1`,
    tenant,
    key,
    now,
    ...(names ?? []),
    names?.[0] ?? null,
  );
}
