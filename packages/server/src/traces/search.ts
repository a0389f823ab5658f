/**
 * Searches the text of traces. Runs in a side thread with a time limit: a client's regular expression may take exponential time.
 */
import { bodyOf } from "./stored-span.ts";

export interface SearchRequest {
  readonly traces: readonly { readonly id: number; readonly bodies: readonly string[] }[];
  /** Text to find, in any case. */
  readonly text: string | undefined;
  /** Source of a regular expression. */
  readonly regex: string | undefined;
}

/** Ids of the traces whose messages contain the text and match the expression. */
export function searchTraces({ traces, text, regex }: SearchRequest): number[] {
  const wanted = text?.toLowerCase();
  const pattern = regex === undefined ? undefined : new RegExp(regex, "u");
  return traces
    .filter(({ bodies }) => {
      const texts = bodies.flatMap(textsOf);
      const hasText = wanted === undefined || texts.some((one) => one.toLowerCase().includes(wanted));
      return hasText && (pattern === undefined || texts.some((one) => pattern.test(one)));
    })
    .map(({ id }) => id);
}

function textsOf(json: string): string[] {
  const { input = [], output, call } = bodyOf(json);
  const messages = output === undefined ? input : [...input, output];
  return [
    ...messages.flatMap(({ content, tool_calls: calls = [] }) => [
      content,
      ...calls.map((one) => `${one.function.name} ${one.function.arguments}`),
    ]),
    ...(call === undefined ? [] : [call.name, call.arguments ?? "", call.result ?? ""]),
  ];
}
