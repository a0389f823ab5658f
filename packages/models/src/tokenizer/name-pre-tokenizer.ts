/**
 * Finds llama.cpp's name for the pre-tokenizer of a byte-level tokenizer: an exact match, or else the one that gives the same tokens for
 * most of a set of sample texts.
 */

import { type Component, normalizeDefinition, type TokenizerDefinition } from "./definition.ts";
import { tokenizerFromDefinition } from "./from-definition.ts";
import { type NamedPreTokenizer, preTokenizers } from "./pre-tokenizers.ts";

/** Texts that distinguish the known pre-tokenizers: contractions, digits, punctuation, white space, newlines, capitals, scripts. */
const samples = [
  "The quick brown fox jumps over the lazy dog.",
  "I'll say it's what we'd do, they've DON'T and CAN'T.",
  "In 2024, 1234567 people paid $3.50; 10% of 42 is 4.2!",
  "x=1;y+=22;if(a<b&&c>=d){return f(x,y)[0];}",
  "def add(a, b):\n    return a + b\n\n\nprint(add(1, 22))\n",
  "a  b   c    d\te \n f\r\n\r\ng",
  "Wait... what?! (really) -- \"yes\" 'no' #1 @home",
  "camelCaseWords and HTTPServer, snake_case_name",
  "Größe, naïve café, Ελληνικά, Русский текст",
  "你好，世界！ こんにちは 안녕하세요",
  "emoji 😀🎉 and symbols → ≤ ∑ ©",
  "https://example.com/path?q=1&r=two#three",
  "* one\n* two\n\n1. first\n2. second\n",
  '{"name": "Ada", "age": 36, "tags": ["x", "y"]}',
  "   leading and trailing   ",
  "what's?\nThat's it!\n",
] as const;

/** The pre-tokenizer as a list of components. */
const componentsOf = (component: Component | null): readonly Component[] => {
  if (component === null) return [];
  const list = component["pretokenizers"];
  return Array.isArray(list) ? (list as Component[]).flatMap(componentsOf) : [component];
};

/** The fields that determine the tokens, serialized for comparison. */
const signature = (cuts: readonly Component[], ignoresMerges: boolean, nfc: boolean): string =>
  JSON.stringify([
    cuts.map(({ type, pattern, behavior, invert }) => [type, pattern, behavior, invert ?? false]),
    ignoresMerges,
    nfc,
  ]);

/**
 * @param definition - a result of `normalizeDefinition`, in which all splits are explicit patterns.
 * @returns the name, and a note if it is not an exact match.
 */
export function nameOfPreTokenizer(
  definition: TokenizerDefinition,
  origin: string,
): { readonly name: string; readonly note?: string } {
  const all = componentsOf(definition.pre_tokenizer);
  const last = all.at(-1);
  const ignoresMerges = definition.model["ignore_merges"] === true;
  const isPlain = last?.type === "ByteLevel" && last["add_prefix_space"] !== true;
  const isNormalized = definition.normalizer !== null;
  const nfc = definition.normalizer?.type === "NFC";
  if (isPlain && (nfc || !isNormalized)) {
    const target = signature(all.slice(0, -1), ignoresMerges, nfc);
    const equal = Object.entries(preTokenizers).find(
      ([, known]) => signature(known.splits, known.ignoresMerges, known.nfc) === target,
    );
    if (equal !== undefined) return { name: equal[0] };
  }
  const { name, alike } = findClosest(definition, origin);
  return {
    name,
    note: `llama.cpp has no pre-tokenizer equal to this model's; the closest, ${name}, gives the same tokens for ${alike} of ${samples.length} sample texts, and other texts may differ: pass token ids to llama.cpp where that matters`,
  };
}

function findClosest(definition: TokenizerDefinition, origin: string): { name: string; alike: number } {
  const encoded = (changed: TokenizerDefinition) => {
    const { encode } = tokenizerFromDefinition({
      definition: normalizeDefinition(changed, origin),
      eosTokenIds: [],
      bosTokenId: undefined,
      hasChatTemplate: false,
      chatTemplate: () => "",
      origin,
    });
    return samples.map((text) => encode(text, { addSpecialTokens: false }).join(" "));
  };
  const targetIds = encoded(definition);
  const seen = new Map<NamedPreTokenizer, number>();
  let best = { name: "default", alike: -1 };
  for (const [name, known] of Object.entries(preTokenizers)) {
    if (seen.has(known)) continue; // an alias
    const changed = {
      ...definition,
      normalizer: null, // llama.cpp does not normalize
      pre_tokenizer: {
        type: "Sequence",
        pretokenizers: [...known.splits, { type: "ByteLevel", add_prefix_space: false, use_regex: false }],
      },
      model: { ...definition.model, ignore_merges: known.ignoresMerges },
    };
    const got = encoded(changed);
    const alike = targetIds.filter((ids, at) => ids === got[at]).length;
    seen.set(known, alike);
    if (alike > best.alike) best = { name, alike };
  }
  return best;
}
