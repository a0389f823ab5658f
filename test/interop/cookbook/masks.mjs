// What our cookbook trains on beside what the official one does: generated conversations of every family that both know, by what is
// learned of them; the tokens and the weight of each must be the same. Where they are not, it is for a reason on the list below.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { realTemplates } from "../templates/real-templates.mjs";
import { run } from "../venv.mjs";

const unescaped = (text) =>
  text.replace(/\\u([0-9a-f]{4})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
/** What a conversation says after it was last asked. */
const answered = (messages) => messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
const upToEach = (messages) =>
  messages.flatMap(({ role }, at) => (role === "assistant" ? [messages.slice(0, at + 1)] : []));

/** Why both may differ, and where. In each case ours is what the model's own template writes. */
const reasons = {
  "with every token learned, the renderer leaves out the line break behind the last turn and encodes a template's text in pieces":
    ({ trainOn, ours, theirs }) =>
      trainOn === "everything" && theirs.every(({ text }, i) => [text, `${text}\n`].includes(ours[i].text)),
  "the renderer escapes what is not ASCII in the arguments of calls": ({ renderer, ours, theirs }) =>
    ["qwen3", "qwen3_instruct"].includes(renderer) &&
    theirs.every(({ text }, i) => [text, `${text}\n`].map(unescaped).includes(unescaped(ours[i]?.text ?? ""))),
  "the renderer makes a turn of each tool's result, where the template has one for those in a row": ({
    renderer,
    messages,
  }) =>
    ["qwen3", "qwen3_instruct"].includes(renderer) &&
    messages.some(({ role }, at) => role === "tool" && messages[at + 1]?.role === "tool"),
  "the renderer leaves out the reasoning before a call that was made to answer the last question": ({
    renderer,
    messages,
  }) =>
    ["qwen3", "qwen3_5"].includes(renderer) &&
    upToEach(messages).some((some) =>
      answered(some)
        .slice(0, -1)
        .some(({ tool_calls, reasoning_content }) => tool_calls && reasoning_content),
    ),
  "the renderer writes a line break too many (qwen3, behind reasoning) or too few (nemotron3) before a call without text":
    ({ renderer, messages }) =>
      messages.some(
        ({ tool_calls, content, reasoning_content }) =>
          tool_calls && content === "" && (renderer === "nemotron3" || (renderer === "qwen3" && reasoning_content)),
      ),
  "ours refuses an answer without reasoning where the prompt opens it": ({ renderer, messages, ours }) =>
    renderer.startsWith("nemotron3") &&
    /differently from the prompt that asks for it/.test(ours.error) &&
    messages.some(({ role, reasoning_content }) => role === "assistant" && !reasoning_content),
};

/** Without the tail that carries no weight and without the first token, which is never a target. */
function learned({ tokens, weights }) {
  const length = weights.findLastIndex((weight) => weight !== 0) + 1;
  return { tokens: tokens.slice(0, length), weights: weights.slice(1, length) };
}

/**
 * @param {string} python with the official cookbook
 * @param {(ok: boolean, what: string, seen: string) => void} say
 */
export async function compareMasks(python, say) {
  const folder = mkdtempSync(join(tmpdir(), "tinklet-masks-"));
  try {
    const model = join(root, "packages/base-model");
    run(process.execPath, [await bundle("test/interop/cookbook/masks-main.ts"), realTemplates(python), folder, model]);
    const [input, output] = [join(folder, "input.json"), join(folder, "theirs.json")];
    run(python, [join(root, "test/interop/cookbook/masks.py"), input, output]);
    const [families, theirs] = [input, output].map((file) => JSON.parse(readFileSync(file, "utf8")));
    const seen = new Map(Object.keys(reasons).map((reason) => [reason, 0]));
    let conversations = 0;
    families.forEach(({ renderer, template, conversations: all, ours }, family) => {
      let [same, explained] = [0, 0];
      const wrong = [];
      all.forEach((messages, at) => {
        for (const [trainOn, mine] of Object.entries(ours[at])) {
          const official = theirs[family][at][trainOn];
          const both = Array.isArray(mine) && Array.isArray(official);
          if (both && isDeepStrictEqual(mine.map(learned), official.map(learned))) {
            same += 1;
            continue;
          }
          const here = { renderer, trainOn, messages, ours: mine, theirs: official };
          const reason = Object.entries(reasons).find(
            ([, holds]) => Array.isArray(official) && (both ? mine.length === official.length : true) && holds(here),
          )?.[0];
          if (reason === undefined) wrong.push({ trainOn, messages, mine, official });
          else {
            explained += 1;
            seen.set(reason, seen.get(reason) + 1);
          }
        }
      });
      conversations += all.length;
      say(
        wrong.length === 0 && same > 0,
        `masks: ${renderer} on the template ${template}, ${all.length} conversations by 3 choices of what is learned`,
        `${same} the same, ${explained} differ as explained${wrong.length === 0 ? "" : `, ${wrong.length} otherwise: ${JSON.stringify(wrong[0]).slice(0, 2000)}`}`,
      );
    });
    say(conversations >= 100, "masks: conversations compared", String(conversations));
    for (const [reason, count] of seen) say(count > 0, `masks: explained: ${reason}`, `${count} times`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
