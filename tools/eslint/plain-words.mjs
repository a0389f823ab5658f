/**
 * ESLint rule `plain-words`: rejects phrases in comments, string literals, template literals and JSX text that do not name the subject, the
 * value or the action, and gives a replacement. A phrase is matched in the whole text after whitespace normalisation, so line breaks,
 * consecutive `//` lines, string concatenation and letter case do not hide it. See "How code should feel" in CONTRIBUTING.md.
 */

/** At most 25 phrases, each with the words to use instead. */
export const phrases = [
  [/\bnobody\b/, "name the subject: no caller, no process, no user"],
  [/\bsomebody\b/, "name the subject: a caller, a process, a user"],
  [/\beverybody\b/, "name the subject: every user, every key"],
  [/\banybody\b/, "name the subject: any user, any key"],
  [/\bwhoever\b/, "name the subject: any caller, the process that …"],
  [/\bwhatever\b/, "for any, independent of, or name the cases"],
  [/\bone's own\b|\bof ours\b/, "name the owner: the caller's, this project's"],
  [/\b(?:is|are|was|were|be|been) told\b/, "is reported, receives an error, is set"],
  [/\b(?:goes|go|went|gone|going) on\b/, "continues, resumes"],
  [/\bno more\b(?! than)/, "no longer"],
  [/\b(?:stands?|stood) (?:behind|beside|between|in between|in for|for)\b/, "follows, is next to, represents"],
  [/\b(?:is|are|be|not) a text\b/, "a string"],
  [/\band \S+ (?:is|are) taken\b/, "the limit is N, got M"],
  [/(?<!\bthere )\b(?:is|are) none\b/, "is not a …, is absent, is empty"],
  [/\bwill do\b(?=\s*(?:[.,;:)]|$))/, "is accepted, is sufficient"],
  [/\banew\b|\bafresh\b/, "again, restarts"],
  [/\bfor want of\b/, "because there is no …"],
  [/\bhand(?:s|ed)? out\b/, "returns, exports"],
  [/\bfor good\b/, "permanently"],
  [/\bfor ever\b/, "indefinitely, without a limit"],
  [/\ball the same\b/, "still, nevertheless"],
  [/\b(?:its|their|the) turn (?:comes|has come)\b|\btakes? (?:its|their) turn\b/, "runs next, is scheduled"],
  [/\bmends?\b|\bmended\b/, "fix"],
  [/\b(?:lets?|letting) (?:it |them )?go of\b/, "releases"],
  [/\bin silence\b/, "silently"],
];

/** @param {string} text */
const normalised = (text) => text.replace(/\s+/g, " ").trim().toLowerCase();

/** @param {{ type: string, value: string }} comment */
const textOf = ({ type, value }) => (type === "Block" ? value.replace(/^\s*\*+/gm, " ") : value);

/** Joins `//` comments on consecutive lines; other comments stay single. */
function joinedComments(comments) {
  const groups = [];
  for (const comment of comments) {
    const last = groups.at(-1)?.at(-1);
    const continues =
      last?.type === "Line" && comment.type === "Line" && comment.loc.start.line === last.loc.end.line + 1;
    if (continues) groups.at(-1).push(comment);
    else groups.push([comment]);
  }
  return groups.map((group) => ({ loc: group[0].loc, text: group.map(textOf).join(" ") }));
}

/** The text of a string expression, with `…` for the parts that are not constant; undefined for other expressions. */
function stringText(node) {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : undefined;
  if (node.type === "TemplateLiteral") return node.quasis.map(({ value }) => value.cooked ?? value.raw).join("…");
  if (node.type === "BinaryExpression" && node.operator === "+") {
    const [left, right] = [stringText(node.left), stringText(node.right)];
    return left === undefined && right === undefined ? undefined : `${left ?? "…"}${right ?? "…"}`;
  }
  return undefined;
}

const isPartOfConcatenation = ({ parent }) => parent.type === "BinaryExpression" && parent.operator === "+";

/** @type {import("eslint").Rule.RuleModule} */
export const plainWords = {
  meta: {
    type: "suggestion",
    schema: [],
    messages: { phrase: '"{{found}}": use plain words, for example: {{instead}}.' },
  },
  create(context) {
    const check = (loc, text) => {
      const plain = normalised(text);
      for (const [pattern, instead] of phrases) {
        const found = pattern.exec(plain)?.[0];
        if (found !== undefined) context.report({ loc, messageId: "phrase", data: { found, instead } });
      }
    };
    const checkString = (node) => {
      if (isPartOfConcatenation(node)) return; // checked with the whole concatenation
      const text = stringText(node);
      if (text !== undefined) check(node.loc, text);
    };
    return {
      Program() {
        for (const { loc, text } of joinedComments(context.sourceCode.getAllComments())) check(loc, text);
      },
      Literal: checkString,
      TemplateLiteral: checkString,
      BinaryExpression: checkString,
      JSXText: (node) => check(node.loc, node.value),
    };
  },
};
