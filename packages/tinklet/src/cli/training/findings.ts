/** Shows what the diagnosis of a run finds: a note with the remedy, and an event for machines. */
import type { Finding } from "@tinklet/cookbook";
import type { Output } from "../output/output.ts";

/** @param stage - the stage of a recipe */
export function showFindings(findings: readonly Finding[], output: Output, stage?: string): void {
  for (const { code, step, message, remedy } of findings) {
    output.event({ type: "finding", ...(stage === undefined ? {} : { stage }), code, step, message, remedy });
    output.note(`Notice${stage === undefined ? "" : ` (${stage})`}: ${message} ${remedy}`);
  }
}
