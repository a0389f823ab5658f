/** Types of graders.mjs, for its tests. */
export interface Keywords {
  readonly any: readonly string[];
  readonly not?: readonly string[];
}
export interface ParsedReply {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}
export interface ToolTask {
  readonly tools: readonly string[];
  readonly expect:
    | "refusal"
    | "talk"
    | { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> };
}
export interface Grade {
  readonly valid: boolean;
  readonly right: boolean;
}
export function fits(schema: object, value: unknown): boolean;
export function indexOfWord(text: string, keyword: string): number;
export function answers(reply: string, question: Keywords): boolean;
export function follows(
  reply: string,
  instruction: { readonly ask: string; readonly checks: readonly Readonly<Record<string, unknown>>[] },
): boolean;
export function gradeCall(
  reply: ParsedReply,
  task: ToolTask,
  tools: Readonly<Record<string, { readonly parameters: object }>>,
): Grade;
export function gradeResult(reply: ParsedReply, step: Pick<Keywords, "any">): Grade;
export function gradeJson(reply: string, task: { readonly schema: object; readonly right: object }): Grade;
