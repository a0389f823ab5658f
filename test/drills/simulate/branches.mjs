// Counts which branches of chosen files a run of the simulator reaches: an esbuild plugin that puts a mark into every arm, and a table. An arm is
// either side of an `if` (also the missing `else`) and of `?:`, the right side of `&&`, `||`, `??` and their assignments, a case of a `switch`,
// a default value, and a `catch`.
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import ts from "typescript";
import { root } from "../../fixtures/programs/bundle.mjs";

/** The files that the issue names: the server's queue, and the client's futures, dispatch and submission. */
const counted = [
  /packages\/server\/src\/queue\/(?!.*\.test\.ts$).*\.ts$/,
  /packages\/sdk\/src\/futures\/(?!.*\.test\.ts$).*\.ts$/,
  /packages\/sdk\/src\/clients\/session\/futures-poller\.ts$/,
  /packages\/sdk\/src\/clients\/sampling\/(sample-dispatch|sample-stream|abandoned-samples)\.ts$/,
  /packages\/sdk\/src\/clients\/training\/(submission-queue|chunk-submission|submit-request|model-requests)\.ts$/,
];

const logical = new Set([
  ts.SyntaxKind.AmpersandAmpersandToken,
  ts.SyntaxKind.BarBarToken,
  ts.SyntaxKind.QuestionQuestionToken,
  ts.SyntaxKind.AmpersandAmpersandEqualsToken,
  ts.SyntaxKind.BarBarEqualsToken,
  ts.SyntaxKind.QuestionQuestionEqualsToken,
]);

/** @returns {{ plugin: import("esbuild").Plugin, arms: { file: string, line: number, text: string }[] }} `arms` is filled while bundling */
export function branchMarks() {
  const arms = [];
  const plugin = {
    name: "branch-marks",
    setup({ onLoad }) {
      onLoad({ filter: /packages\/(server|sdk)\/src\/.*\.ts$/ }, ({ path }) =>
        counted.some((pattern) => pattern.test(path))
          ? { loader: "ts", contents: marked(readFileSync(path, "utf8"), relative(root, path), arms) }
          : undefined,
      );
    },
  };
  return { plugin, arms };
}

/** The source with a mark in every arm. */
export function marked(source, file, arms) {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  /** Text to insert; at one position, what was opened first is closed last. */
  const edits = [];
  let depth = 0;
  const insert = (at, text, order) => edits.push({ at, text, order });
  const mark = (node, what) => {
    const { line } = tree.getLineAndCharacterOfPosition(node.getStart());
    const text = `${what} ${node.getText().split("\n", 1)[0].slice(0, 70)}`;
    return `__arms[${arms.push({ file, line: line + 1, text }) - 1}]=1`;
  };
  const expression = (node, what) => {
    insert(node.getStart(), `(${mark(node, what)},`, depth);
    insert(node.end, ")", -depth);
  };
  const statement = (node, what) => {
    insert(node.getStart(), `{${mark(node, what)};`, depth);
    insert(node.end, "}", -depth);
  };
  const visit = (node) => {
    depth++;
    if (ts.isIfStatement(node)) {
      statement(node.thenStatement, "if");
      if (node.elseStatement === undefined) insert(node.end, ` else {${mark(node, "not")}}`, -depth + 0.5);
      else statement(node.elseStatement, "else");
    } else if (ts.isConditionalExpression(node)) {
      expression(node.whenTrue, "?");
      expression(node.whenFalse, ":");
    } else if (ts.isBinaryExpression(node) && logical.has(node.operatorToken.kind)) {
      expression(node.right, node.operatorToken.getText());
    } else if ((ts.isParameter(node) || ts.isBindingElement(node)) && node.initializer !== undefined) {
      expression(node.initializer, "=");
    } else if (ts.isCaseOrDefaultClause(node)) {
      const [first] = node.statements;
      if (first !== undefined) insert(first.getStart(), `${mark(node, "")};`, depth);
    } else if (ts.isCatchClause(node)) {
      insert(node.block.getStart() + 1, `${mark(node, "catch")};`, depth);
    }
    ts.forEachChild(node, visit);
    depth--;
  };
  visit(tree);
  edits.sort((a, b) => a.at - b.at || a.order - b.order);
  let text = "const __arms = (globalThis.__arms ??= new Uint8Array(1 << 16)); ";
  let from = 0;
  for (const { at, text: added } of edits) {
    text += source.slice(from, at) + added;
    from = at;
  }
  return text + source.slice(from);
}

/** Prints a table per file, and the arms that were not reached. @param reached - indexes of arms */
export function printBranches(arms, reached) {
  const files = new Map();
  for (const [index, arm] of arms.entries()) {
    const file = files.get(arm.file) ?? { all: 0, reached: 0, missed: [] };
    files.set(arm.file, file);
    file.all++;
    if (reached.has(index)) file.reached++;
    else file.missed.push(arm);
  }
  const share = (part, all) => `${((100 * part) / all).toFixed(1)} %`.padStart(8);
  const groups = [
    ["packages/server/src/queue", "the server's queue"],
    ["packages/sdk/src", "the client's futures, dispatch and submission"],
  ];
  for (const [folder] of groups) {
    const inside = [...files].filter(([file]) => file.startsWith(folder)).sort();
    for (const [, { missed }] of inside)
      for (const { file, line, text } of missed) console.log(`not reached: ${file}:${line} ${text}`);
  }
  for (const [folder, title] of groups) {
    const inside = [...files].filter(([file]) => file.startsWith(folder)).sort();
    console.log(`\n| ${title} | branches | reached | |\n|---|---|---|---|`);
    const sum = { all: 0, reached: 0 };
    for (const [file, { all, reached: hit }] of inside) {
      console.log(`| \`${file.slice(folder.length + 1)}\` | ${all} | ${hit} | ${share(hit, all)} |`);
      sum.all += all;
      sum.reached += hit;
    }
    console.log(`| **together** | ${sum.all} | ${sum.reached} | **${share(sum.reached, sum.all).trim()}** |`);
  }
}
