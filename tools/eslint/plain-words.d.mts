import type { Rule } from "eslint";

export declare const phrases: readonly (readonly [pattern: RegExp, instead: string])[];
export declare const plainWords: Rule.RuleModule;
