/** The agent and its task: a calculation that the model cannot do in its head, a tool that can, and the answer in plain digits. */
import { seededRandom } from "@tinklet/cookbook";
import { generateText, jsonSchema, type LanguageModel, stepCountIs, tool } from "ai";

/** One task. */
export interface Task {
  readonly question: string;
  /** What the tool has to be asked. */
  readonly expression: string;
  readonly answer: string;
}

const operators = ["+", "-", "*"] as const;

/** Works out `17 * 23`; undefined for anything else. */
export function calculate(expression: string): string | undefined {
  const [, a, operator, b] = /^\s*(\d{1,9})\s*([-+*])\s*(\d{1,9})\s*$/.exec(expression) ?? [];
  if (a === undefined || b === undefined) return undefined;
  const [x, y] = [Number(a), Number(b)];
  return String(operator === "+" ? x + y : operator === "-" ? x - y : x * y);
}

/** Tasks with numbers of two digits; the same seed gives the same ones. */
export function makeTasks(count: number, seed: number): Task[] {
  const random = seededRandom(seed);
  const twoDigits = () => 10 + Math.floor(random() * 90);
  return Array.from({ length: count }, () => {
    const expression = `${twoDigits()} ${operators[Math.floor(random() * operators.length)]} ${twoDigits()}`;
    return { question: `What is ${expression}?`, expression, answer: calculate(expression)! };
  });
}

/** The schema of the tool, also for the demonstrations. */
export const calculatorTool = {
  name: "calculator",
  description: "Does sums.",
  parameters: { type: "object", properties: { expression: { type: "string" } } },
} as const;

const tools = {
  [calculatorTool.name]: tool({
    description: calculatorTool.description,
    inputSchema: jsonSchema<{ expression: string }>(calculatorTool.parameters as never),
    execute: ({ expression }) => calculate(String(expression)) ?? "I cannot work that out.",
  }),
};

/** One run of the agent: as many turns as it wants, three at most. */
export const runAgent = (model: LanguageModel, task: Task, options: { seed: number; temperature?: number }) =>
  generateText({
    model,
    tools,
    prompt: task.question,
    stopWhen: stepCountIs(3),
    maxOutputTokens: 48,
    maxRetries: 0,
    ...options,
  });
