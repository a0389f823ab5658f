/** `billing usage`: what was used, by the hour. Shows whatever fields the server sends, as the official tool does. */
import { wireOf } from "../../wire/client.ts";
import type { BillingUsageResponse } from "../../wire/rest.ts";
import type { Command } from "../command.ts";
import { writeWhole } from "../files.ts";
import type { Output } from "../output.ts";

type Row = Readonly<Record<string, unknown>>;

export const billingUsage: Command = {
  usage: "billing usage STARTING_ON ENDING_BEFORE [--csv FILE] [--sessions-csv FILE]",
  about:
    "Shows usage by the hour between two moments: RFC 3339, whole UTC hours, at most 14 days apart.\n" +
    "Quantities are tokens and gigabyte-hours; the data may be some hours behind.",
  arguments: ["STARTING_ON", "ENDING_BEFORE"],
  options: {
    csv: { type: "string", value: "FILE", about: "write the rows as CSV instead; - for stdout" },
    "sessions-csv": { type: "string", value: "FILE", about: "write the sessions' notes as CSV; - for stdout" },
  },
  examples: ["billing usage 2026-07-13T00:00:00Z 2026-07-14T00:00:00Z"],
  async run(input, context) {
    const { output, signal } = context;
    const [startingOn = "", endingBefore = ""] = input.positionals;
    const rest = (await context.service()).createRestClient();
    const usage = await rest.getBillingUsage(startingOn, endingBefore, { signal });
    const rows = usageRows(usage);
    const flat = rows.map(flattened);
    const [csv, sessionsCsv] = [input.text("csv"), input.text("sessions-csv")];
    if (sessionsCsv !== undefined) await writeCsv(sessionRows(usage), sessionsCsv, output);
    if (csv !== undefined) await writeCsv(flat, csv, output);
    if (csv !== undefined || sessionsCsv !== undefined) return;
    const columns = columnsOf(flat);
    output.result({
      title: rows.length === 0 ? "No billing usage in this window" : `${rows.length} hourly usage row(s)`,
      columns,
      rows: flat.map((row) => columns.map((column) => cell(row[column]))),
      json: {
        data: rows,
        sessions: Object.fromEntries(
          Object.entries(usage.sessions).map(([id, { userMetadata }]) => [id, { user_metadata: userMetadata ?? null }]),
        ),
      },
    });
  },
};

const envelope = ["bucket_start", "bucket_end", "base_model", "user_id", "user_name", "session_id", "project_id"];

/** The events as they came, with null for what is absent. */
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

/** As Python's `json.dumps` spaces it. */
const pythonJson = (value: Readonly<Record<string, string>>) =>
  `{${Object.entries(value)
    .map(([key, text]) => `${JSON.stringify(key)}: ${JSON.stringify(text)}`)
    .join(", ")}}`;

const columnsOf = (rows: readonly Row[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))];

/** As Python's `str()` writes it; nothing for null. */
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
  if (file === "-") return void process.stdout.write(text);
  await writeWhole(file, text);
  output.note(`Wrote ${rows.length} row(s) to ${file}`);
}
