// How the evaluations of the bundled model ask it things: the ids that end a text, prompts in chat and in plain form,
// completions of many prompts at once, each under a seed of its own.
export const END_OF_TEXT = 0;
export const IM_START = 1;
export const IM_END = 2;

/** `ask` writes a question (after earlier messages) as a chat prompt; `plain` encodes a text as it stands. */
export const prompts = ({ tokenizer }) => ({
  ask: (question, before = []) =>
    tokenizer.applyChatTemplate([...before, { role: "user", content: question }], { addGenerationPrompt: true }),
  plain: (text) => tokenizer.encode(text, { addSpecialTokens: false }),
});

/** Completions of many prompts, each text with the ids it came from. `adapter` is a trained one, or none. */
export const complete = (engine, encoded, { maxTokens, temperature, seed = 1, adapter }) =>
  Promise.all(
    encoded.map(async (prompt, i) => {
      const params = { maxTokens, temperature, seed: seed + 7919 * i, stop: [END_OF_TEXT, IM_END] };
      const { sequences } = await engine.sample({ prompt, params, ...(adapter && { adapter }) });
      const ids = [...sequences[0].tokens];
      return { ids, text: await engine.tokenizer.decode(ids, { skipSpecialTokens: true }) };
    }),
  );
