// Compares two recorded releases and says what the newer one adds, changes and drops on the wire: types, fields, enum
// values, protobuf messages and fields, routes. Works on fixtures alone; parity.mjs writes and checks the result.

/** Index of a list by one of its keys. */
const by = (list, key) => new Map(list.map((item) => [item[key], item]));

/** A path with its placeholders unnamed: `{run}` and `{training_run_id}` are the same route. */
const route = ({ method, path }) => `${method} ${path.replace(/\{[^}]*\}/g, "{}")}`;

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Fields that `newer` has and `older` lacks, those that differ, and those that are gone. */
function fieldChanges(older, newer) {
  const before = by(older, "name");
  const after = by(newer, "name");
  const added = newer.filter((field) => !before.has(field.name));
  const changed = newer
    .filter((field) => before.has(field.name) && !same(before.get(field.name), field))
    .map((field) => ({ from: before.get(field.name), to: field }));
  const removed = older.filter((field) => !after.has(field.name)).map((field) => field.name);
  return { ...(added.length && { added }), ...(changed.length && { changed }), ...(removed.length && { removed }) };
}

/** What is left of a type's description when its name, schema and visibility are set aside. */
const shape = ({ name, jsonSchema, public: _, ...rest }) => rest;

function typeChanges(older, newer) {
  const changes = [];
  for (const type of newer) {
    const before = older.get(type.name);
    if (!before || same(shape(before), shape(type))) continue;
    const change = { name: type.name };
    if (before.kind !== type.kind) change.kind = { from: before.kind, to: type.kind };
    if (before.extra !== type.extra) change.extra = { from: before.extra, to: type.extra };
    if (before.type !== type.type) change.type = { from: before.type, to: type.type };
    if (type.values) change.values = type.values.filter((value) => !before.values?.includes(value));
    if (type.fields) Object.assign(change, fieldChanges(before.fields ?? [], type.fields));
    changes.push(change);
  }
  return changes;
}

/**
 * What `newer` has over `older`; each argument holds the parsed `schemas` and `proto` fixtures of one release.
 * @param {{ schemas: any, proto: any }} older
 * @param {{ schemas: any, proto: any }} newer
 */
export function whatIsNew(older, newer) {
  const typesBefore = by(older.schemas.types, "name");
  const typesAfter = by(newer.schemas.types, "name");
  const messagesBefore = by(older.proto.messages, "name");
  const messagesAfter = by(newer.proto.messages, "name");
  const routesBefore = new Set(older.schemas.routes.map(route));
  const routesAfter = new Set(newer.schemas.routes.map(route));
  return {
    from: older.schemas.tinker,
    to: newer.schemas.tinker,
    newRoutes: newer.schemas.routes.filter((r) => !routesBefore.has(route(r))),
    removedRoutes: older.schemas.routes.filter((r) => !routesAfter.has(route(r))),
    newTypes: newer.schemas.types
      .filter((type) => !typesBefore.has(type.name))
      .map(({ name, kind, type, values, fields, extra }) => ({ name, kind, extra, type, values, fields })),
    removedTypes: older.schemas.types.filter((type) => !typesAfter.has(type.name)).map((type) => type.name),
    changedTypes: typeChanges(typesBefore, newer.schemas.types),
    newMessages: newer.proto.messages.filter((message) => !messagesBefore.has(message.name)),
    removedMessages: older.proto.messages.filter((m) => !messagesAfter.has(m.name)).map((m) => m.name),
    changedMessages: newer.proto.messages
      .filter((m) => messagesBefore.has(m.name) && !same(messagesBefore.get(m.name), m))
      .map((m) => ({ name: m.name, ...fieldChanges(messagesBefore.get(m.name).fields, m.fields) })),
    changedEnums: newer.proto.enums.filter((item) => !older.proto.enums.some((before) => same(before, item))),
  };
}

/** The comparison as text: one line for each entry, so that a diff shows what moved. */
export function render(news) {
  const lines = Object.entries(news).map(([key, value]) => {
    if (!Array.isArray(value)) return `${JSON.stringify(key)}: ${JSON.stringify(value)}`;
    if (value.length === 0) return `${JSON.stringify(key)}: []`;
    return `${JSON.stringify(key)}: [\n${value.map((item) => JSON.stringify(item)).join(",\n")}\n]`;
  });
  return `{\n${lines.join(",\n")}\n}\n`;
}
