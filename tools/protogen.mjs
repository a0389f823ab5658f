// Generates packages/wire/src/proto/gen/*.ts from the .proto files: plain interfaces and, for each message, a size, a write
// and a read function over wire/proto/binary.ts. `--check` fails if a committed file differs.
// Why not a general runtime: docs/decisions/0003-wire-layer.md.
import { readFileSync, writeFileSync } from "node:fs";
import protobuf from "protobufjs";

const here = new URL("../packages/wire/src/proto/", import.meta.url);
/** Each definition, its package, and the generated file. */
const definitions = [
  { source: "tinker_public.proto", scope: "tinker_public", target: "gen/tinker-public.ts" },
  { source: "otlp.proto", scope: "otlp", target: "gen/otlp.ts" },
];

const scalars = {
  string: {
    ts: "string",
    empty: '""',
    wire: 2,
    read: "reader.string()",
    size: (v) => `sizer.text(${v})`,
    write: () => "writer.text()",
  },
  bytes: {
    ts: "Uint8Array",
    empty: "emptyBytes",
    wire: 2,
    read: "reader.byteArray()",
    size: (v) => `delimitedSize(${v}.byteLength)`,
    write: (v) => `writer.byteArray(${v})`,
  },
  bool: {
    ts: "boolean",
    empty: "false",
    wire: 0,
    read: "reader.bool()",
    size: () => "1",
    write: (v) => `writer.uint32(${v} ? 1 : 0)`,
  },
  int32: {
    ts: "number",
    empty: "0",
    wire: 0,
    read: "reader.int32()",
    size: (v) => `int32Size(${v})`,
    write: (v) => `writer.int32(${v})`,
  },
  uint32: {
    ts: "number",
    empty: "0",
    wire: 0,
    read: "reader.uint32()",
    size: (v) => `varintSize(${v})`,
    write: (v) => `writer.uint32(${v})`,
  },
  int64: {
    ts: "Int64",
    empty: "0",
    wire: 0,
    read: "reader.int64()",
    size: (v) => `int64Size(${v})`,
    write: (v) => `writer.int64(${v})`,
  },
  uint64: {
    ts: "Int64",
    empty: "0",
    wire: 0,
    read: "reader.uint64()",
    size: (v) => `int64Size(${v})`,
    write: (v) => `writer.int64(${v})`,
  },
  fixed64: {
    ts: "Int64",
    empty: "0",
    wire: 1,
    read: "reader.fixed64()",
    size: () => "8",
    write: (v) => `writer.fixed64(${v})`,
  },
  float: {
    ts: "number",
    empty: "0",
    wire: 5,
    read: "reader.float()",
    size: () => "4",
    write: (v) => `writer.float(${v})`,
  },
  double: {
    ts: "number",
    empty: "0",
    wire: 1,
    read: "reader.double()",
    size: () => "8",
    write: (v) => `writer.double(${v})`,
  },
};

/** How one value of a type is read, measured and written. */
function codec(type, resolved) {
  if (resolved instanceof protobuf.Enum) return { ...scalars.int32, ts: "number" };
  if (resolved) {
    const name = resolved.name;
    return {
      ts: name,
      empty: `create${name}()`,
      wire: 2,
      isMessage: true,
      read: `reader.nested((r) => read${name}(r))`,
      size: (v) => `sizer.close(sizer.open(), size${name}(${v}, sizer))`,
      write: (v) => `writer.nestedSize(); write${name}(${v}, writer)`,
    };
  }
  return scalars[type];
}

const tagOf = (id, wire) => ((id << 3) | wire) >>> 0;
const tagSize = (tag) => (tag < 0x80 ? 1 : 2);
const absent = (field, c, value) => {
  if (c.ts === "string") return `${value} === ""`;
  if (c.ts === "Uint8Array") return `${value}.byteLength === 0`;
  if (c.ts === "boolean") return `!${value}`;
  if (field.type === "float" || field.type === "double") return `Object.is(${value}, 0)`;
  return c.ts === "Int64" ? `${value} == 0` : `${value} === 0`;
};

function emitMessage(type) {
  const name = type.name;
  const fields = type.fieldsArray.map((field) => {
    const c = codec(field.type, field.resolvedType);
    const isOptional =
      Boolean(field.options?.proto3_optional) ||
      Boolean(field.partOf) ||
      (c.isMessage && !field.repeated && !field.map);
    const snake = field.name.replace(/[A-Z]/g, (l) => `_${l.toLowerCase()}`);
    return { field, c, key: field.name, isOptional, snake };
  });
  const out = [];
  out.push(`export interface ${name} {`);
  for (const { field, c, key, isOptional } of fields) {
    if (field.map) out.push(`  ${key}: Map<string, ${c.ts}>;`);
    else if (field.repeated) out.push(`  ${key}: ${c.ts}[];`);
    else out.push(`  ${key}${isOptional ? "?" : ""}: ${c.ts}${isOptional ? " | undefined" : ""};`);
  }
  out.push("}", "", `export function create${name}(): ${name} {`, "  return {");
  for (const { field, c, key, isOptional } of fields) {
    if (field.map) out.push(`    ${key}: new Map(),`);
    else if (field.repeated) out.push(`    ${key}: [],`);
    else if (!isOptional) out.push(`    ${key}: ${c.empty},`);
  }
  out.push("  };", "}", "");

  out.push(
    `export function size${name}(message: ${name}, ${fields.some(({ c, field }) => c.isMessage || c.ts === "string" || field.map) ? "sizer" : "_sizer"}: Sizer): number {`,
    "  let size = 0;",
  );
  for (const { field, c, key, isOptional } of fields) {
    const v = `message.${key}`;
    const tag = tagOf(field.id, field.map || (field.repeated && c.wire !== 2) ? 2 : c.wire);
    if (field.map) {
      out.push(
        `  for (const [key, value] of ${v}) {`,
        `    size += ${tagSize(tag)} + sizer.close(sizer.open(), 2 + sizer.text(key) + ${c.size("value")});`,
        "  }",
      );
    } else if (field.repeated && c.wire !== 2) {
      out.push(
        `  if (${v}.length > 0) {`,
        "    let packed = 0;",
        `    for (const item of ${v}) packed += ${c.size("item")};`,
        `    size += ${tagSize(tag)} + delimitedSize(packed);`,
        "  }",
      );
    } else if (field.repeated) {
      out.push(`  for (const item of ${v}) size += ${tagSize(tag)} + ${c.size("item")};`);
    } else if (isOptional) {
      out.push(
        `  if (${v} !== undefined) {`,
        `    const value = ${v};`,
        `    size += ${tagSize(tag)} + ${c.size("value")};`,
        "  }",
      );
    } else out.push(`  if (!(${absent(field, c, v)})) size += ${tagSize(tag)} + ${c.size(v)};`);
  }
  out.push("  return size;", "}", "");

  out.push(`export function write${name}(message: ${name}, writer: Writer): void {`);
  for (const { field, c, key, isOptional } of fields) {
    const v = `message.${key}`;
    const tag = tagOf(field.id, field.map || (field.repeated && c.wire !== 2) ? 2 : c.wire);
    if (field.map) {
      out.push(
        `  for (const [, value] of ${v}) {`,
        `    writer.uint32(${tag});`,
        "    writer.nestedSize();",
        `    writer.uint32(${tagOf(1, 2)});`,
        "    writer.text();",
        `    writer.uint32(${tagOf(2, c.wire)});`,
        `    ${c.write("value")};`,
        "  }",
      );
    } else if (field.repeated && c.wire !== 2) {
      out.push(
        `  if (${v}.length > 0) {`,
        "    let packed = 0;",
        `    for (const item of ${v}) packed += ${c.size("item")};`,
        `    writer.uint32(${tag});`,
        "    writer.uint32(packed);",
        `    for (const item of ${v}) ${c.write("item")};`,
        "  }",
      );
    } else if (field.repeated) {
      out.push(
        `  for (const ${c.ts === "string" ? "_item" : "item"} of ${v}) {`,
        `    writer.uint32(${tag});`,
        `    ${c.write("item")};`,
        "  }",
      );
    } else if (isOptional) {
      out.push(`  if (${v} !== undefined) {`, `    writer.uint32(${tag});`, `    ${c.write(v)};`, "  }");
    } else out.push(`  if (!(${absent(field, c, v)})) {`, `    writer.uint32(${tag});`, `    ${c.write(v)};`, "  }");
  }
  out.push("}", "");

  out.push(
    `export function read${name}(reader: Reader, into: ${name} = create${name}()): ${name} {`,
    "  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {",
    "    switch (tag) {",
  );
  for (const { field, c, key } of fields) {
    const others = (field.partOf?.oneof ?? []).filter((other) => other !== key && !field.options?.proto3_optional);
    const clear = others.map((other) => `into.${other} = undefined; `).join("");
    if (field.map) {
      out.push(
        `      case ${tagOf(field.id, 2)}:`,
        "        reader.nested((entry) => {",
        '          let key = "";',
        `          let value: ${c.ts} = ${c.empty};`,
        "          for (let inner = entry.tag(); inner !== 0; inner = entry.tag()) {",
        `            if (inner === ${tagOf(1, 2)}) key = entry.string();`,
        `            else if (inner === ${tagOf(2, c.wire)}) value = ${c.read.replaceAll("reader.", "entry.")};`,
        "            else entry.skip(inner);",
        "          }",
        `          into.${key}.set(key, value);`,
        "        });",
        "        break;",
      );
    } else if (field.repeated && c.wire !== 2) {
      out.push(
        `      case ${tagOf(field.id, 2)}:`,
        `      case ${tagOf(field.id, c.wire)}:`,
        `        reader.repeated(tag, (r) => ${c.read.replaceAll("reader.", "r.")}, into.${key});`,
        "        break;",
      );
    } else if (field.repeated) {
      out.push(`      case ${tagOf(field.id, 2)}:`, `        into.${key}.push(${c.read});`, "        break;");
    } else if (c.isMessage) {
      // a message that occurs twice is merged, as the format asks
      out.push(
        `      case ${tagOf(field.id, 2)}: {`,
        `        ${clear}const before = into.${key};`,
        `        into.${key} = reader.nested((r) => read${c.ts}(r, before));`,
        "        break;",
        "      }",
      );
    } else
      out.push(`      case ${tagOf(field.id, c.wire)}:`, `        ${clear}into.${key} = ${c.read};`, "        break;");
  }
  out.push("      default:", "        reader.skip(tag);", "    }", "  }", "  return into;", "}", "");
  return out.join("\n");
}

function generate({ source, scope: name }) {
  const { root } = protobuf.parse(readFileSync(new URL(source, here), "utf8"), { keepCase: false });
  root.resolveAll();
  const scope = root.lookup(name);
  const enums = scope.nestedArray.filter((item) => item instanceof protobuf.Enum);
  const types = scope.nestedArray.filter((item) => item instanceof protobuf.Type);
  const body = [
    ...enums.map((e) => `export const ${e.name} = ${JSON.stringify(e.values)} as const;\n`),
    ...types.map(emitMessage),
  ].join("\n");
  const functions = ["delimitedSize", "int32Size", "int64Size", "varintSize"].filter((word) =>
    body.includes(`${word}(`),
  );
  const used = [...functions, ...(body.includes(": Int64") ? ["type Int64"] : [])];
  return `// Generated from ${source} by \`npm run proto\`. Do not edit.
/* eslint-disable */
import { ${used.join(", ")}, type Reader, type Sizer, type Writer } from "../binary.ts";
${body.includes("emptyBytes") ? "\nconst emptyBytes = new Uint8Array(0);\n" : ""}
${body}`;
}

for (const definition of definitions) {
  const target = new URL(definition.target, here);
  const text = generate(definition);
  if (!process.argv.includes("--check")) writeFileSync(target, text);
  else if (readFileSync(target, "utf8") !== text) {
    console.error(
      `${definition.target} does not match ${definition.source}: run \`npm run proto\` and commit the result`,
    );
    process.exitCode = 1;
  }
}
