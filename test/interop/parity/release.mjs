// What a release of the official SDK has over another: calls, parameters, routes, types, protobuf fields, and recorded values that differ.
// `npm run parity -- --release X` prints it as Markdown; works on recordings alone, so that a test can feed it the committed ones.
import { whatIsNew } from "./new-in.mjs";

/** Lines of one list in the report; the rest is counted. */
const mostLines = 60;
const longestLine = 300;

/** What a fixture line is about: its id, name or path, else the line itself. */
export function labelOf(line) {
  try {
    const entry = JSON.parse(line.replace(/,$/, ""));
    return entry.id ?? entry.name ?? entry.path ?? line.slice(0, 100);
  } catch {
    return line.slice(0, 100);
  }
}

/** Lines that only one of two texts has, by what they are about. */
export function difference(committed, recorded) {
  const before = new Set(committed.split("\n"));
  const after = new Set(recorded.split("\n"));
  const gone = new Set([...before].filter((line) => !after.has(line)).map(labelOf));
  const come = new Set([...after].filter((line) => !before.has(line)).map(labelOf));
  const changed = [...come].filter((label) => gone.has(label)).map((label) => `changed: ${label}`);
  const added = [...come].filter((label) => !gone.has(label)).map((label) => `new: ${label}`);
  const removed = [...gone].filter((label) => !come.has(label)).map((label) => `gone: ${label}`);
  return [...changed, ...added, ...removed];
}

/** @throws when the text is not the version of a release: it becomes part of a command and of a path. */
export function releaseVersion(text) {
  if (/^\d+\.\d+\.\d+(?:(?:a|b|rc|\.post)\d+)?$/.test(text ?? "")) return text;
  throw new Error(`--release must be a version such as 0.38.0, or "latest", got ${JSON.stringify(text)}`);
}

/** Names that only one of two lists has. */
const listChanges = (before, after) => [
  ...after.filter((name) => !before.includes(name)).map((name) => `new: ${name}`),
  ...before.filter((name) => !after.includes(name)).map((name) => `gone: ${name}`),
];

const methodsOf = ({ methods }) =>
  Object.entries(methods).flatMap(([owner, names]) => names.map((name) => `${owner}.${name}`));

/** Calls that both have and whose parameters differ. */
const signatureChanges = (before, after) =>
  Object.entries(after).flatMap(([name, now]) =>
    before[name] === undefined || before[name] === now ? [] : [`${name}: ${before[name]} → ${now}`],
  );

const fieldText = ({ name, type, required, default: value }) =>
  `${name}: ${type}${required ? "" : ` = ${JSON.stringify(value)}`}`;

function typeText({ name, added = [], changed = [], removed = [], values = [], ...rest }) {
  const parts = [
    ...added.map((field) => `+ ${fieldText(field)}`),
    ...changed.map(({ from, to }) => `${fieldText(from)} → ${fieldText(to)}`),
    ...removed.map((field) => `- ${field}`),
    ...values.map((value) => `+ ${JSON.stringify(value)}`),
    ...Object.entries(rest).map(([key, { from, to }]) => `${key}: ${from} → ${to}`),
  ];
  return `${name}: ${parts.join("; ")}`;
}

const routeText = ({ method, path }) => `${method} ${path}`;

/**
 * The sections of the report, each a list of lines.
 *
 * @param {Recording} older
 * @param {Recording} newer
 * @typedef {{ version: string, files: Record<string, string>, signatures?: Record<string, string>, sources?: string[] }} Recording
 *   `files`: the recorded files by name, without `.json`; `signatures`: of public calls; `sources`: changed source files of the newer one
 */
export function releaseChanges(older, newer) {
  const parsed = ({ files }, name) => JSON.parse(files[name]);
  const [surfaceBefore, surface] = [parsed(older, "surface"), parsed(newer, "surface")];
  const parts = (recording) => ({ schemas: parsed(recording, "schemas"), proto: parsed(recording, "proto") });
  const news = whatIsNew(parts(older), parts(newer));
  const values = Object.keys(newer.files)
    .filter((name) => !["schemas", "proto", "surface", "missing"].includes(name))
    .map((name) => [
      `Recorded values: ${name}`,
      difference(older.files[name] ?? "", newer.files[name]).filter((line) => !line.includes('"tinker": ')),
    ]);
  return new Map([
    ["Methods and properties", listChanges(methodsOf(surfaceBefore), methodsOf(surface))],
    ["Parameters of calls", signatureChanges(older.signatures ?? {}, newer.signatures ?? {})],
    ["Exported names", listChanges(surfaceBefore.names, surface.names)],
    ["Commands", listChanges(surfaceBefore.commands, surface.commands)],
    [
      "Routes",
      [...news.newRoutes.map((r) => `new: ${routeText(r)}`), ...news.removedRoutes.map((r) => `gone: ${routeText(r)}`)],
    ],
    [
      "Types",
      [
        ...news.newTypes.map(({ name, fields = [], values: words = [], type }) => {
          const body = [
            ...fields.map(fieldText),
            ...words.map((word) => JSON.stringify(word)),
            ...(type ? [type] : []),
          ];
          return `new: ${name} { ${body.join("; ")} }`;
        }),
        ...news.removedTypes.map((name) => `gone: ${name}`),
        ...news.changedTypes.map(typeText),
      ],
    ],
    [
      "Protobuf",
      [
        ...news.newMessages.map(
          ({ name, fields }) => `new: ${name} { ${fields.map((field) => field.name).join(", ")} }`,
        ),
        ...news.removedMessages.map((name) => `gone: ${name}`),
        ...news.changedMessages.map(({ name, added = [], changed = [], removed = [] }) => {
          const names = [
            ...added.map((f) => `+ ${f.name}`),
            ...changed.map(({ to }) => `changed ${to.name}`),
            ...removed.map((f) => `- ${f}`),
          ];
          return `${name}: ${names.join("; ")}`;
        }),
        ...news.changedEnums.map(({ name }) => `enum ${name}`),
      ],
    ],
    ...values,
    ["Source files (lines added, removed)", newer.sources ?? []],
  ]);
}

const steps = (version) => [
  `Set \`newest\` in \`test/interop/versions.mjs\` and \`mirroredSdkVersion\` in \`packages/wire/src/routes/route.ts\` to ${version}.`,
  "`npm run parity -- --update`, and read the diff of `test/fixtures/`.",
  "Add routes, types and fields to `packages/wire` with the release in `since` and `fieldsSince`; calls to `packages/sdk`.",
  "Give each method, parameter and command a row in `docs/PARITY.md`; `test/integration/docs/official-surface.test.ts` names those without one.",
  "Read the changed source files: retries, limits and waits have no recording.",
  "`npm run test:interop -- conversation server cli`.",
];

/** The report as Markdown. */
export function renderRelease(older, newer) {
  const changes = [...releaseChanges(older, newer)];
  const line = (text) => `- ${text.length > longestLine ? `${text.slice(0, longestLine)} …` : text}`;
  const sections = changes
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => {
      const more = lines.length > mostLines ? [`- and ${lines.length - mostLines} more`] : [];
      return [`## ${title}: ${lines.length}`, ...lines.slice(0, mostLines).map(line), ...more].join("\n");
    });
  const same = changes.filter(([, lines]) => lines.length === 0).map(([title]) => title.toLowerCase());
  return [
    `# tinker ${newer.version} compared with ${older.version}`,
    ...sections,
    ...(same.length === 0 ? [] : [`Without a difference: ${same.join(", ")}.`]),
    `## To follow it\n${steps(newer.version)
      .map((step, at) => `${at + 1}. ${step}`)
      .join("\n")}`,
  ].join("\n\n");
}
