/**
 * `billing usage` and `billing checkpoint-storage`: usage by the hour, and the current size and cost of checkpoints. Shows all fields
 * that the server sends, like the official tool.
 */
import { type BillingUsageResponse, wireOf } from "@tinklet/wire";
import type { Command } from "../command.ts";
import { writeWhole } from "../files.ts";
import { ordered } from "../output/official-json.ts";
import type { Output } from "../output/output.ts";

type Row = Readonly<Record<string, unknown>>;

export const billingUsage: Command = {
  usage: "billing usage STARTING_ON ENDING_BEFORE [--csv FILE] [--sessions-csv FILE]",
  about:
    "Shows usage by the hour between two moments: RFC 3339, whole UTC hours, at most 14 days apart.\n" +
    "Quantities are tokens and gigabyte-hours. The data can be some hours old.",
  arguments: ["STARTING_ON", "ENDING_BEFORE"],
  options: {
    csv: { type: "string", value: "FILE", about: "write the rows as CSV instead; - for stdout" },
    "sessions-csv": { type: "string", value: "FILE", about: "write the sessions' metadata as CSV; - for stdout" },
  },
  examples: ["billing usage 2026-07-13T00:00:00Z 2026-07-14T00:00:00Z"],
  async run(input, context) {
    const { output, signal } = context;
    const [startingOn = "", endingBefore = ""] = input.positionals;
    const rest = (await context.service()).createRestClient();
    const usage = await rest.getBillingUsage(startingOn, endingBefore, { signal });
    const rows = usageRows(usage);
    const flat = rows.map(flattened);
    const shown = flat.map(withNullCosts);
    const [csv, sessionsCsv] = [input.text("csv"), input.text("sessions-csv")];
    if (sessionsCsv !== undefined) await writeCsv(sessionRows(usage), sessionsCsv, output);
    if (csv !== undefined) await writeCsv(flat, csv, output);
    if (csv !== undefined || sessionsCsv !== undefined) return;
    const columns = columnsOf(shown);
    const through = wireOf(usage)?.["cost_data_through"];
    output.result({
      title: rows.length === 0 ? "No billing usage in this window" : `${rows.length} hourly usage row(s)`,
      columns,
      rows: shown.map((row) => columns.map((column) => cell(row[column]))),
      json: {
        data: rows,
        sessions: Object.fromEntries(
          Object.entries(usage.sessions).map(([id, { userMetadata }]) => [id, { user_metadata: userMetadata ?? null }]),
        ),
        cost_data_through: through ?? null,
      },
    });
  },
};

export const billingCheckpointStorage: Command = {
  usage: "billing checkpoint-storage [--project-id ID] [--csv FILE]",
  about:
    "Shows the number and the size of the stored checkpoints and their cost in a month (720 hours), by project and owner.\n" +
    "The data can be one or two hours old; costs are gross projections, not invoice amounts.",
  options: {
    "project-id": { type: "string", value: "ID", about: "only checkpoints of this project" },
    csv: { type: "string", value: "FILE", about: "write the rows as CSV instead; - for stdout" },
  },
  async run(input, context) {
    const { output, signal } = context;
    const rest = (await context.service()).createRestClient();
    const projectId = input.text("project-id");
    const usage = await rest.getCurrentCheckpointStorageUsage({
      signal,
      ...(projectId === undefined ? {} : { projectId }),
    });
    const rate = usage.effectiveRateUsdPerGigabyteMonth ?? null;
    const data = usage.data.map((item) => ordered(item, storageFields));
    const rows = data.map((row) => ({ effective_rate_usd_per_gigabyte_month: rate, ...row }));
    const csv = input.text("csv");
    if (csv !== undefined) return void (await writeCsv(rows, csv, output));
    const columns = columnsOf(rows);
    output.result({
      title: rows.length === 0 ? "No active checkpoint storage" : "Current checkpoint storage",
      columns,
      rows: rows.map((row: Row) => columns.map((column) => cell(row[column]))),
      json: { effective_rate_usd_per_gigabyte_month: rate, data },
    });
  },
};

const storageFields = {
  project_id: null,
  org_user_urn: null,
  user_email: null,
  user_name: null,
  checkpoint_count: null,
  size_bytes: null,
  size_gigabytes: null,
  estimated_monthly_cost_usd: null,
} as const;

/** A cost that applies to the kind of usage but is unknown is shown as null; a cost that does not apply is left empty. */
function withNullCosts(row: Row): Row {
  const rate = {
    training: "effective_rate_usd_per_million_tokens",
    sampling_prefill: "effective_rate_usd_per_million_tokens",
    sampling_sample: "effective_rate_usd_per_million_tokens",
    storage: "effective_rate_usd_per_gigabyte_month",
  }[String(row["type"])];
  if (rate === undefined) return row;
  return { ...row, estimated_cost_usd: row["estimated_cost_usd"] ?? "null", [rate]: row[rate] ?? "null" };
}

const envelope = ["bucket_start", "bucket_end", "base_model", "user_id", "user_name", "session_id", "project_id"];

/** The events as the server sent them, with null for absent fields. */
function usageRows({ data }: BillingUsageResponse): Row[] {
  return data.map((event) => {
    const wire = wireOf(event) ?? {};
    const known = Object.fromEntries(envelope.map((name) => [name, wire[name] ?? null]));
    return { ...known, ...wire, event_info: wire["event_info"] };
  });
}

function flattened(row: Row): Row {
  const { event_info, ...rest } = row;
  return typeof event_info === "object" && event_info !== null ? { ...rest, ...event_info } : row;
}

function sessionRows({ sessions }: BillingUsageResponse): Row[] {
  return Object.entries(sessions).map(([id, { userMetadata }]) => ({
    session_id: id,
    user_metadata: userMetadata === undefined ? null : pythonJson(userMetadata),
  }));
}

/** JSON with the spacing of Python's `json.dumps`. */
const pythonJson = (value: Readonly<Record<string, string>>) =>
  `{${Object.entries(value)
    .map(([key, text]) => `${JSON.stringify(key)}: ${JSON.stringify(text)}`)
    .join(", ")}}`;

const columnsOf = (rows: readonly Row[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))];

/** A value as Python's `str()` writes it; empty for null. */
function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

async function writeCsv(rows: readonly Row[], file: string, output: Output): Promise<void> {
  const columns = columnsOf(rows);
  const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [columns, ...rows.map((row) => columns.map((column) => cell(row[column])))];
  const text = lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
  if (file === "-") return output.data(text);
  await writeWhole(file, text);
  output.note(`Wrote ${rows.length} row(s) to ${file}`);
}
