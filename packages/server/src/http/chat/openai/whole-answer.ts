/** Serializes a complete response one choice at a time, and yields to the event loop in between. */
import { yieldToEventLoop } from "@tinklet/engine";
import { jsonTextAnswer } from "../../answers.ts";

export interface WholeAnswer {
  readonly head: object;
  readonly choices: readonly WholeChoice[];
  readonly usage: object;
}

export interface WholeChoice {
  /** The choice without its log-probs. */
  readonly choice: object;
  /** JSON of the log-probs. */
  readonly logprobs: () => Promise<string> | string;
}

export async function wholeAnswer({ head, choices, usage }: WholeAnswer): Promise<Response> {
  const written: string[] = [];
  for (const { choice, logprobs } of choices) {
    if (written.length > 0) await yieldToEventLoop();
    written.push(`${JSON.stringify(choice).slice(0, -1)},"logprobs":${await logprobs()}}`);
  }
  const start = JSON.stringify(head).slice(0, -1);
  return jsonTextAnswer(`${start},"choices":[${written.join(",")}],"usage":${JSON.stringify(usage)}}`);
}
