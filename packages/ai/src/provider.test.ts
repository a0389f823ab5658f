/** The provider under the real AI SDK (6 here; `npm run test:interop -- ai` runs the same file under 6 and 7), over a scripted model. */
import { createTinklet, type TokenRecord } from "@tinklet/ai";
import { TinkerError, TokenizerError } from "@tinklet/sdk";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { describe, expect, test } from "vitest";
import { modelName, type ScriptedOptions, scriptedService } from "./testing/scripted-service.ts";

const weather = (asked: unknown[] = []) =>
  tool({
    description: "How it is outside.",
    inputSchema: jsonSchema<{ city: string }>({
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
    }),
    execute: (input) => {
      asked.push(input);
      return "21 degrees";
    },
  });
const callText = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🏔️"}}\n</tool_call>';

const open = async (replies: readonly (string | readonly number[])[], options?: ScriptedOptions) => {
  const scripted = await scriptedService(replies, options);
  return { ...scripted, model: createTinklet({ service: scripted.service })(modelName) };
};
const recordOf = (metadata: unknown) => (metadata as { readonly tinklet: TokenRecord }).tinklet;
const quiet = { maxRetries: 0, onError: () => {} };

describe("text", () => {
  const said = "naïve 日本語 👩‍👩‍👧 done";

  test("generateText returns text, usage, finish reason and token ids", async () => {
    const { model, encode, end, tokenizer } = await open([said], { cachedTokens: 3 });
    const result = await generateText({ model, system: "Be brief.", prompt: "hello world", maxRetries: 0 });
    expect([result.text, result.finishReason, result.warnings]).toEqual([said, "stop", []]);
    const record = recordOf(result.providerMetadata);
    expect(record.tokenIds).toEqual([...encode(said), end]);
    expect(record.logprobs).toHaveLength(record.tokenIds.length);
    expect(record.logprobs!.every((value) => value < 0)).toBe(true);
    expect(tokenizer.decode(record.promptTokenIds)).toBe(
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\n",
    );
    expect(record.stopReason).toBe("stop");
    expect(record.sampler).toMatchObject({
      modelId: modelName,
      baseModel: modelName,
      temperature: 1,
      topP: 1,
      topK: -1,
    });
    const { inputTokens, outputTokens } = result.usage;
    expect([inputTokens, outputTokens]).toEqual([record.promptTokenIds.length, record.tokenIds.length]);
    expect(result.usage.inputTokenDetails.cacheReadTokens).toBe(3);
  });

  test("streamText yields the same reply and never splits a character", async () => {
    const { model } = await open([said]);
    const stream = streamText({ model, prompt: "x", ...quiet });
    const pieces: string[] = [];
    for await (const piece of stream.textStream) pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(10);
    expect(pieces.join("")).toBe(said);
    expect(pieces.every((piece) => !piece.includes("\ufffd") && encodeURIComponent(piece) !== "")).toBe(true);
    const whole = await generateText({ model, prompt: "x", maxRetries: 0 });
    expect(await stream.finishReason).toBe("stop");
    expect(recordOf(await stream.providerMetadata)).toEqual(recordOf(whole.providerMetadata));
    expect(await stream.usage).toEqual(whole.usage);
  });

  test("stop strings end the reply and are not part of it; maxOutputTokens gives finish reason length", async () => {
    const { model } = await open(["one END two"]);
    expect(await generateText({ model, prompt: "x", stopSequences: ["END"], maxRetries: 0 })).toMatchObject({
      text: "one ",
      finishReason: "stop",
    });
    const cut = await generateText({ model, prompt: "x", maxOutputTokens: 3, maxRetries: 0 });
    expect([cut.text, cut.finishReason]).toEqual(["one", "length"]);
    const huge = await generateText({ model, prompt: "x", maxOutputTokens: 2 ** 31 - 1, maxRetries: 0 });
    expect(huge.text).toBe("one END two");
  });

  test("settings reach the sampler; unsupported settings are warnings", async () => {
    const seen: unknown[] = [];
    const { model } = await open(["x"], { onSample: ({ params }) => seen.push(params) });
    const settings = { temperature: 0.5, topP: 0.9, topK: 7, seed: 3, maxOutputTokens: 9 };
    const { warnings, providerMetadata } = await generateText({
      model,
      prompt: "x",
      ...settings,
      presencePenalty: 1,
      frequencyPenalty: 1,
      maxRetries: 0,
    });
    expect(seen).toEqual([expect.objectContaining({ temperature: 0.5, topP: 0.9, topK: 7, seed: 3, maxTokens: 9 })]);
    expect(warnings?.map((each) => "feature" in each && each.feature)).toEqual(["presencePenalty", "frequencyPenalty"]);
    expect(recordOf(providerMetadata).sampler).toMatchObject({ temperature: 0.5, topP: 0.9, topK: 7 });
  });
});

describe("reasoning and tools", () => {
  const reply = `<think>\nhm\n</think>\n\nLet me see.\n${callText}`;

  test("a tool loop, generated and streamed; each prompt extends the tokens of the previous turn", async () => {
    for (const isStreamed of [false, true]) {
      const { model, prompts } = await open([reply, "It is 21 degrees."]);
      const asked: unknown[] = [];
      const settings = { model, prompt: "How warm?", tools: { get_weather: weather(asked) }, stopWhen: stepCountIs(3) };
      const streamed = isStreamed ? streamText({ ...settings, ...quiet }) : undefined;
      await streamed?.consumeStream();
      const result = streamed ?? (await generateText({ ...settings, maxRetries: 0 }));
      const steps = await result.steps;
      expect(asked).toEqual([{ city: "Zürich 🏔️" }]);
      expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
      expect(steps[0]).toMatchObject({ reasoningText: "hm", text: "Let me see." });
      const { reasoningTokens = 0, textTokens = 0 } = steps[0]!.usage.outputTokenDetails;
      expect(reasoningTokens).toBeGreaterThanOrEqual(3); // the marker and two letters
      expect(textTokens + reasoningTokens).toBe(steps[0]!.usage.outputTokens);
      expect(await result.text).toBe("It is 21 degrees.");
      expect(prompts[0]).toContain("get_weather");
      expect(prompts[1]).toContain("<tool_response>\n21 degrees\n</tool_response>");
      const [first, second] = steps.map(({ providerMetadata }) => recordOf(providerMetadata));
      const before = [...first!.promptTokenIds, ...first!.tokenIds];
      expect(second!.promptTokenIds.slice(0, before.length)).toEqual(before);
    }
  });

  test("earlier replies keep their sampled tokens; edited replies are tokenized again", async () => {
    const spelled = [..."hello"].map((letter) => letter.charCodeAt(0)); // encode() gives one token
    const { model, encode, end } = await open([[...spelled, 267]], { family: "plain" });
    expect(encode("hello")).toHaveLength(1);
    const first = await generateText({ model, prompt: "x", maxRetries: 0 });
    expect(first.text).toBe("hello");
    const ask = { role: "user" as const, content: "again" };
    const before = { role: "user" as const, content: "x" };
    const next = await generateText({ model, messages: [before, ...first.response.messages, ask], maxRetries: 0 });
    const tail = recordOf(next.providerMetadata).promptTokenIds.slice(
      recordOf(first.providerMetadata).promptTokenIds.length,
    );
    expect(tail.slice(0, 6)).toEqual([...spelled, end]);
    const [message] = structuredClone(first.response.messages);
    (message!.content as { text: string }[])[0]!.text = "hell";
    const edited = await generateText({ model, messages: [before, message!, ask], maxRetries: 0 });
    const other = recordOf(edited.providerMetadata).promptTokenIds.slice(
      recordOf(first.providerMetadata).promptTokenIds.length,
    );
    expect(other.slice(0, 2)).toEqual([...encode("hell"), end]);
  });

  test("a template without tool support gets the tools as text, and calls are plain JSON", async () => {
    const { model, prompts } = await open(
      ['{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}', "Mild."],
      { family: "plain" },
    );
    const asked: unknown[] = [];
    const result = await generateText({
      model,
      prompt: "How warm?",
      tools: { get_weather: weather(asked) },
      stopWhen: stepCountIs(2),
      maxRetries: 0,
    });
    expect([asked, result.text]).toEqual([[{ city: "Oslo" }], "Mild."]);
    expect(prompts[0]).toContain("You can call these tools:");
  });

  test.each([
    ["broken JSON", '<tool_call>\n{"name": "get_weather", "arguments": {\n</tool_call>'],
    ["a call without an end", '<tool_call>\n{"name": "get_weath'],
  ])("%s is text", async (_, text) => {
    const { model } = await open([text]);
    const tools = { get_weather: weather() };
    const whole = await generateText({ model, prompt: "x", tools, maxRetries: 0 });
    expect([whole.text, whole.toolCalls, whole.finishReason]).toEqual([text, [], "stop"]);
  });

  test("a call of an unknown tool is an invalid call, which the AI SDK reports to the model", async () => {
    const { model } = await open(['<tool_call>\n{"name": "launch", "arguments": {}}\n</tool_call>']);
    const { toolCalls } = await generateText({ model, prompt: "x", tools: { get_weather: weather() }, maxRetries: 0 });
    expect(toolCalls).toMatchObject([{ toolName: "launch", invalid: true }]);
  });

  test("toolChoice none hides the tools; a forced call and strict tools are warnings", async () => {
    const { model, prompts } = await open(["x"]);
    const tools = { get_weather: weather(), other: weather() };
    await generateText({ model, prompt: "x", tools, toolChoice: "none", maxRetries: 0 });
    expect(prompts[0]).not.toContain("get_weather");
    const { warnings } = await model.doGenerate({
      prompt: [{ role: "user", content: [{ type: "text", text: "x" }] }],
      tools: ["get_weather", "other"].map((name) => ({ type: "function", name, inputSchema: {}, strict: true })),
      toolChoice: { type: "tool", toolName: "other" },
    });
    expect(warnings.map((each) => "feature" in each && each.feature)).toEqual([
      "toolChoice",
      "strict mode of tool other",
    ]);
    expect(prompts[1]).not.toContain("get_weather");
  });

  test("providerOptions pass template variables; unknown options are errors that name them", async () => {
    const { model, prompts } = await open(["x"]);
    const ask = (tinklet: Record<string, never>) =>
      generateText({ model, prompt: "x", providerOptions: { tinklet }, maxRetries: 0 });
    await ask({ templateVariables: { enable_thinking: false } } as never);
    expect(prompts[0]!.endsWith("<think>\n\n</think>\n\n")).toBe(true);
    await expect(ask({ templateVariable: {} } as never)).rejects.toThrow("templateVariable");
  });
});

describe("what cannot be done is said clearly", () => {
  test("images and files are errors", async () => {
    const { model } = await open(["x"]);
    const image = { type: "image" as const, image: new Uint8Array([1, 2, 3]), mediaType: "image/png" };
    const messages = [{ role: "user" as const, content: [image] }];
    await expect(generateText({ model, messages, maxRetries: 0 })).rejects.toThrow(
      /prompt\[0\]: Tinklet models accept text only, got file of image\/png/,
    );
  });

  test("an empty prompt is an error", async () => {
    const { model } = await open(["x"]);
    await expect(generateText({ model, messages: [], maxRetries: 0 })).rejects.toThrow(/messages must not be empty/);
    await expect(model.doGenerate({ prompt: [] })).rejects.toThrow(/it has no messages/);
  });

  test("a model without a chat template is an error", async () => {
    const { model } = await open(["x"], { family: "none" });
    const error = await generateText({ model, prompt: "x", maxRetries: 0 }).catch((each: unknown) => each);
    expect(error).toBeInstanceOf(TokenizerError);
    expect((error as Error).message).toMatch(/chat template/);
  });

  test("a prompt longer than the context is an error, generated and streamed", async () => {
    const { model } = await open(["x"], { contextLength: 16 });
    const prompt = "too long for it";
    await expect(generateText({ model, prompt, maxRetries: 0 })).rejects.toThrow(/context of 16/);
    const errors: unknown[] = [];
    const stream = streamText({ model, prompt, maxRetries: 0, onError: ({ error }) => void errors.push(error) });
    await stream.consumeStream();
    expect(String(errors[0])).toMatch(/context of 16/);
  });

  test("unknown models and closed providers are errors", async () => {
    const { service, model } = await open(["x"]);
    const provider = createTinklet({ service });
    await expect(generateText({ model: provider("none/such"), prompt: "x", maxRetries: 0 })).rejects.toThrow(
      "none/such",
    );
    expect(() => provider("")).toThrow("modelId");
    expect(() => provider.embeddingModel("x")).toThrow("language models only");
    expect(() => createTinklet({ service, apiKey: "tml-x" })).toThrow("apiKey");
    await provider.close();
    const closed = await generateText({ model: provider(modelName), prompt: "x", maxRetries: 0 }).catch(
      (e: unknown) => e,
    );
    expect(closed).toBeInstanceOf(TinkerError);
    expect((closed as TinkerError).code).toBe("closed");
    expect((await generateText({ model, prompt: "x", maxRetries: 0 })).text).toBe("x"); // the provider did not close the caller's client
    await service.close();
    await expect(generateText({ model, prompt: "x", maxRetries: 0 })).rejects.toThrow(/closed/);
  });
});

describe("short names", () => {
  test("resolve to the newest sampler weights of a run, the named ones, or the newest of all runs", async () => {
    const used: unknown[] = [];
    const { service, end } = await open([[267]], { onSample: ({ adapter }) => used.push(adapter) });
    expect(end).toBe(267);
    const provider = createTinklet({ service });
    const trainer = await service.createLoraTrainingClient({ baseModel: modelName, rank: 4 });
    const run = trainer.modelId;
    const latest = provider("@latest");
    await expect(generateText({ model: latest, prompt: "x", maxRetries: 0 })).rejects.toThrow(
      /No sampler weights found/,
    );
    await trainer.saveWeightsForSampler("one");
    await trainer.saveState("later"); // training weights, not sampler weights
    const idOf = async (model: ReturnType<typeof provider>) => {
      const { providerMetadata } = await generateText({ model, prompt: "x", maxRetries: 0 });
      const { sampler } = recordOf(providerMetadata);
      const rest = service.createRestClient();
      return [sampler.modelId, (await rest.getSampler(sampler.samplingSessionId)).modelPath];
    };
    const path = (name: string) => `tinker://${run}/sampler_weights/${name}`;
    expect(await idOf(latest)).toEqual(["@latest", path("one")]);
    await trainer.saveWeightsForSampler("two");
    expect(await idOf(latest)).toEqual(["@latest", path("one")]); // the name is resolved once per model
    expect(await idOf(provider("@latest"))).toEqual(["@latest", path("two")]);
    expect(await idOf(provider(run))).toEqual([run, path("two")]);
    expect(await idOf(provider(`${run}:one`))).toEqual([`${run}:one`, path("one")]);
    expect(await idOf(provider(path("two")))).toEqual([path("two"), path("two")]);
    expect(used.every((adapter) => adapter !== undefined)).toBe(true);
    for (const none of [`${run}:three`, "unknown:train:0", `${run}:later`]) {
      await expect(generateText({ model: provider(none), prompt: "x", maxRetries: 0 })).rejects.toThrow(none);
    }
  });
});

describe("leaving and sharing", () => {
  const endless = Array.from({ length: 3000 }, () => "a".charCodeAt(0));
  /** Counts tokens and yields to the event loop between them, as a real engine does. */
  const counting = () => {
    const counted = {
      drawn: 0,
      beforeToken: () => new Promise<void>((next) => void setImmediate(next, void counted.drawn++)),
    };
    return counted;
  };

  test("an abort during a stream ends the stream and the sample", async () => {
    const counted = counting();
    const { model } = await open([endless], counted);
    const controller = new AbortController();
    const aborted: unknown[] = [];
    const stream = streamText({
      model,
      prompt: "x",
      abortSignal: controller.signal,
      onAbort: () => void aborted.push(1),
      ...quiet,
    });
    let text = "";
    for await (const piece of stream.textStream) {
      text += piece;
      if (text.length >= 5) controller.abort();
    }
    expect(aborted).toEqual([1]);
    expect(text.length).toBeLessThan(3000);
    expect(counted.drawn).toBeLessThan(3000);
    const before = AbortSignal.abort(new Error("too late"));
    await expect(generateText({ model, prompt: "x", abortSignal: before, maxRetries: 0 })).rejects.toThrow("too late");
  });

  test("two concurrent streams do not mix", async () => {
    const { model } = await open(["first reply", "second reply"]);
    const texts = await Promise.all(
      [0, 1].map(async () => {
        const { textStream } = streamText({ model, prompt: "x", ...quiet });
        let text = "";
        for await (const piece of textStream) text += piece;
        return text;
      }),
    );
    expect(texts.sort()).toEqual(["first reply", "second reply"]);
  });

  test("a stream that is cancelled by its reader ends the sample", async () => {
    const counted = counting();
    const { model } = await open([endless], counted);
    const { stream } = await model.doStream({ prompt: [{ role: "user", content: [{ type: "text", text: "x" }] }] });
    const reader = stream.getReader();
    for (let i = 0; i < 6; i++) await reader.read();
    await reader.cancel();
    const turn = () => new Promise((next) => setImmediate(next));
    let before = -1;
    for (let quiet = 0; quiet < 20; quiet = counted.drawn === before ? quiet + 1 : 0) {
      before = counted.drawn;
      await turn();
    }
    expect(counted.drawn).toBeLessThan(3000);
  });
});
