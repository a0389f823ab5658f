/** Conversations for chat templates, drawn from a seed: with and without a system message, tools, calls, several turns and thinking. */
import type { ChatMessage, ChatTool } from "../../../packages/models/src/chat/types.ts";
import { seededRandom } from "../../weights/random.ts";

export interface Conversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[];
  /** Ends with the opening of the assistant's turn; else with an answer. */
  readonly addGenerationPrompt: boolean;
  readonly variables: Readonly<Record<string, unknown>>;
}

/** What not every family can be told. */
export interface Abilities {
  /** Several calls in one turn. */
  readonly manyCalls: boolean;
  /** `reasoning_content` of the assistant. */
  readonly thinks: boolean;
  /** Text beside a call. */
  readonly textWithCall: boolean;
}

const texts = [
  "Hello!",
  "How warm is it in Zürich? 🌡️",
  "What is 2 + 2 < 5 && 'a' > \"b\"?",
  "你好，世界！",
  "def f(x):\n    return {x: [1, 2]}  # {{ not a template }}",
  "e\u0301te\u0301, naïve café",
  "First line.\n\nThird line.",
  "{% raw %} \\n \\u00e9 <b>bold</b> &amp; more",
  "👩‍👩‍👧‍👦 and 🏳️‍🌈",
  "No.",
  "1234567890",
  "<tool_call> is a word, [LIST] too",
] as const;

const tools: readonly ChatTool[] = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: 'How it is outside, in °C & "more".',
      parameters: {
        type: "object",
        properties: { city: { type: "string", description: "Where, e.g. São Paulo" }, days: { type: "integer" } },
        required: ["city"],
      },
    },
  },
  {
    type: "function",
    function: {
      name: "search",
      description: "Finds pages <fast>.",
      parameters: {
        type: "object",
        properties: {
          query: { type: "string" },
          filter: { type: "object", properties: { tags: { type: "array", items: { type: "string" } } } },
        },
        required: ["query"],
      },
    },
  },
  {
    type: "function",
    function: { name: "now", description: "The time.", parameters: { type: "object", properties: {} } },
  },
];

const arguments_ = [
  { name: "get_weather", arguments: { city: "Zürich 🏔️", days: 3 } },
  { name: "get_weather", arguments: { city: 'São "Paulo"' } },
  { name: "search", arguments: { query: "a < b & c", filter: { tags: ["x", "y\n"] } } },
  { name: "search", arguments: { query: "" } },
  { name: "now", arguments: {} },
] as const;

/** The conversations of a seed; the same ones for the same abilities. */
export function conversations(count: number, seed: number, can: Abilities): readonly Conversation[] {
  const random = seededRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[random.integer(list.length)] as T;
  const chance = (percent: number) => random.integer(100) < percent;
  return Array.from({ length: count }, (): Conversation => {
    const offered = chance(60) ? tools.slice(0, 1 + random.integer(tools.length)) : undefined;
    const messages: ChatMessage[] = chance(50) ? [{ role: "system", content: pick(texts) }] : [];
    let ids = 0;
    const thought = () => (can.thinks && chance(50) ? { reasoning_content: pick(texts) } : {});
    const turns = 1 + random.integer(3);
    for (let turn = 0; turn < turns; turn++) {
      messages.push({ role: "user", content: pick(texts) });
      if (offered !== undefined && chance(50)) {
        const known = arguments_.filter(({ name }) => offered.some((tool) => tool.function.name === name));
        const calls = Array.from({ length: can.manyCalls ? 1 + random.integer(2) : 1 }, () => ({
          id: String(ids++).padStart(9, "0"),
          type: "function",
          function: pick(known),
        }));
        const content = can.textWithCall && chance(40) ? pick(texts) : "";
        messages.push({ role: "assistant", content, ...thought(), tool_calls: calls });
        for (const { id, function: called } of calls) {
          messages.push({
            role: "tool",
            name: called.name,
            tool_call_id: id,
            content: pick(['"21 °C"', "[1, 2]", '{"ok": true}']),
          });
        }
      }
      messages.push({ role: "assistant", content: pick(texts), ...thought() });
    }
    // Some end with a question or with what a tool said, some with an answer, some with a call.
    const addGenerationPrompt = chance(60);
    const endsWithCall = !addGenerationPrompt && messages.at(-2)?.role === "tool" && chance(50);
    if (addGenerationPrompt || endsWithCall) messages.pop();
    while (endsWithCall && messages.at(-1)?.role === "tool") messages.pop();
    return {
      messages,
      addGenerationPrompt,
      variables: { date_string: "26 Jul 2024", ...(can.thinks && chance(30) ? { enable_thinking: chance(50) } : {}) },
      ...(offered && { tools: offered }),
    };
  });
}
