// Decides whether a reply of the bundled model is right: by keyword, by programmatic checks of an instruction, by the call that a tool
// task asks for, by JSON schema. Pure functions over text and parsed replies; `tools/eval-base-abilities.mjs` samples the replies. The
// tests are in test/integration/pretrain.
import { Ajv } from "ajv";

const ajv = new Ajv({ strict: false });
const validators = new WeakMap();

/** Whether a value fits a JSON schema. */
export const fits = (schema, value) => {
  if (!validators.has(schema)) validators.set(schema, ajv.compile(schema));
  return validators.get(schema)(value) === true;
};

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Where a keyword begins in a text, or -1. A keyword is a whole word (or phrase) or its plural; a trailing `*` admits any ending. */
export const indexOfWord = (text, keyword) => {
  const open = keyword.endsWith("*");
  const ending = open ? "" : "(?:e?s)?(?![\\p{L}\\p{N}])";
  return text.search(new RegExp(`(?<![\\p{L}\\p{N}])${escaped(open ? keyword.slice(0, -1) : keyword)}${ending}`, "iu"));
};

const has = (text, keyword) => indexOfWord(text, keyword) >= 0;
const firstOf = (text, keywords) =>
  Math.min(
    ...keywords.map((keyword) => indexOfWord(text, keyword)).map((at) => (at < 0 ? Number.POSITIVE_INFINITY : at)),
  );

/** Words that a right answer may take to come to the point; what follows them is not read. */
const wordsRead = 40;
const beginning = (reply) => reply.trim().split(/\s+/).slice(0, wordsRead).join(" ");

/**
 * Whether a reply has one of the acceptable words within its first 40 words. `not` lists the wrong answers to a choice: the first word of
 * either list decides.
 */
export const answers = (reply, { any, not = [] }) => {
  const text = beginning(reply);
  const right = firstOf(text, any);
  return Number.isFinite(right) && right < firstOf(text, not);
};

const wordsOf = (text) => text.match(/[\p{L}\p{N}][\p{L}\p{N}'’-]*/gu) ?? [];
const linesOf = (text) => text.split("\n").filter((line) => line.trim() !== "");
const sentencesOf = (text) =>
  (text.trim().match(/[^.!?]+(?:[.!?]+["')]*(?=\s|$)|$)/g) ?? []).filter((part) => wordsOf(part).length > 0);
const within = (count, [least, most]) => count >= least && count <= most;
const readJson = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** One check of an instruction by its name; each takes the trimmed reply and the value in the data file. */
const checks = {
  words: (text, range) => within(wordsOf(text).length, range),
  sentences: (text, range) => within(sentencesOf(text).length, range),
  lines: (text, range) => within(linesOf(text).length, range),
  numbered: (text, count) =>
    linesOf(text).length === count &&
    linesOf(text).every((line, i) => new RegExp(`^\\s*${i + 1}[.):]\\s*\\S`).test(line)),
  bullets: (text, count) =>
    linesOf(text).length === count && linesOf(text).every((line) => /^\s*[-*•]\s*\S/.test(line)),
  commaItems: (text, count) => {
    const items = text
      .replace(/\.$/, "")
      .split(/,\s*(?:and\s+)?|\s+and\s+/)
      .map((item) => item.trim().toLowerCase());
    return (
      items.length === count &&
      new Set(items).size === count &&
      items.every((item) => within(wordsOf(item).length, [1, 3]))
    );
  },
  any: (text, words) => words.some((word) => has(text, word)),
  all: (text, words) => words.every((word) => has(text, word)),
  none: (text, words) => words.every((word) => !has(text, word)),
  includes: (text, part) => text.includes(part),
  excludes: (text, part) => !text.includes(part),
  starts: (text, start) => text.startsWith(start) && !/^[\p{L}\p{N}]/u.test(text.slice(start.length)),
  ends: (text, end) => text.endsWith(end),
  endsWord: (text, word) => wordsOf(text).at(-1)?.toLowerCase() === word,
  firstWord: (text, word) => wordsOf(text)[0]?.toLowerCase() === word,
  upper: (text) => /\p{Lu}/u.test(text) && !/\p{Ll}/u.test(text),
  lower: (text) => /\p{Ll}/u.test(text) && !/\p{Lu}/u.test(text),
  count: (text, { word, times }) => wordsOf(text).filter((each) => each.toLowerCase() === word).length === times,
  order: (text, words) => {
    const at = words.map((word) => indexOfWord(text, word));
    return at.every((here, i) => here >= 0 && (i === 0 || here > at[i - 1]));
  },
  jsonKeys: (text, keys) => {
    const value = readJson(text);
    return typeof value === "object" && value !== null && keys.every((key) => Object.hasOwn(value, key));
  },
  jsonList: (text, count) => {
    const value = readJson(text);
    return Array.isArray(value) && value.length === count && value.every((item) => typeof item === "string");
  },
};

/** Whether a reply passes every check of an instruction. @throws Error if the data file names an unknown check */
export const follows = (reply, instruction) => {
  const text = reply.trim();
  return (
    text !== "" &&
    instruction.checks.every((check) =>
      Object.entries(check).every(([name, value]) => {
        if (checks[name] === undefined) throw new Error(`unknown check ${name} in ${JSON.stringify(instruction.ask)}`);
        return checks[name](text, value);
      }),
    )
  );
};

const sameValue = (found, wanted) =>
  (Array.isArray(wanted) ? wanted : [wanted]).some((each) =>
    typeof each === "string"
      ? typeof found === "string" && found.trim().toLowerCase() === each.toLowerCase()
      : found === each,
  );

/** Whether a reply mentions that the request cannot be fulfilled. */
const refuses = (text) =>
  /\b(?:can(?:no|')?t|can not|could not|couldn't|unable|not able|no tool|not possible|don't have|do not have|sorry)\b/i.test(
    text.replaceAll("’", "'"),
  );
const looksLikeCall = (text) => /<\/?tool_|"arguments"|"tool_calls"|^\s*[{[]/.test(text);

/**
 * Grades a reply to a tool task. `valid`: a call in the right format of an offered tool with arguments that fit its schema or, where no
 * tool fits, text without a broken call. `right`: the expected call and no other; a refusal in words; for small talk, an answer in words.
 * @param {{ text: string, toolCalls: readonly { name: string, arguments: string }[] }} reply
 * @param {{ tools: readonly string[], expect: "refusal" | "talk" | { name: string, arguments: object } }} task
 * @param {Record<string, { parameters: object }>} tools
 */
export const gradeCall = ({ text, toolCalls }, task, tools) => {
  if (typeof task.expect === "string") {
    const valid = toolCalls.length === 0 && text.trim() !== "" && !looksLikeCall(text);
    return { valid, right: valid && refuses(text) === (task.expect === "refusal") };
  }
  const calls = toolCalls.map((call) => ({ name: call.name, arguments: readJson(call.arguments) }));
  const valid =
    calls.length > 0 &&
    calls.every((call) => task.tools.includes(call.name) && fits(tools[call.name].parameters, call.arguments));
  const [call] = calls;
  const right =
    valid &&
    calls.length === 1 &&
    call.name === task.expect.name &&
    Object.entries(task.expect.arguments).every(([key, wanted]) => sameValue(call.arguments[key], wanted));
  return { valid, right };
};

/** Grades the answer after a tool's result: text, not another call, with one of the words that only the result has. */
export const gradeResult = ({ text, toolCalls }, { any }) => {
  const valid = toolCalls.length === 0 && text.trim() !== "" && !looksLikeCall(text);
  return { valid, right: valid && any.some((word) => has(text, word)) };
};

const covers = (found, wanted) => {
  if (Array.isArray(wanted))
    return Array.isArray(found) && found.length === wanted.length && wanted.every((each, i) => covers(found[i], each));
  if (typeof wanted === "object")
    return (
      typeof found === "object" &&
      found !== null &&
      Object.entries(wanted).every(([key, each]) => covers(found[key], each))
    );
  return sameValue(found, wanted);
};

/** Grades a reply that should be JSON for a schema: `valid` if the whole reply is JSON that fits, `right` if its values are those of the text. */
export const gradeJson = (reply, { schema, right }) => {
  const value = readJson(reply.trim());
  const valid = value !== undefined && fits(schema, value);
  return { valid, right: valid && covers(value, right) };
};
