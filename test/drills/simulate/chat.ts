/**
 * A client of the chat endpoints: its requests are answered on the open connection and are not stored. It may leave while it waits, and it asks
 * for weights of its tenant and of others.
 */
import type { Clock } from "@tinklet/wire/clock";
import { APIConnectionError } from "@tinklet/wire/errors";
import { sampledLogprob, sampledTokens } from "./arithmetic.ts";
import { baseWeights, vocabularySize } from "./engine.ts";
import { baseModel, baseUrl, keyOf } from "./host.ts";
import type { Random } from "./random.ts";

export interface ChatOptions {
  readonly name: string;
  readonly tenant: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly problem: (text: string) => void;
  /** Weights that were saved for sampling, of all tenants. */
  readonly samplerPaths: () => readonly { readonly tenant: string; readonly path: string }[];
  readonly record: (what: string, run: (signal: AbortSignal) => Promise<unknown>) => Promise<unknown>;
}

/** Ids from here on are special tokens, which end an answer. */
const firstSpecial = 265;

/** How long clients wait for an answer. */
const patiencesMs = [300, 3_000, 60_000] as const;

interface Completion {
  readonly choices: readonly { readonly logprobs: { readonly token_logprobs: readonly number[] } | null }[];
}

export async function chat({ name, tenant, clock, random, fetch, problem, samplerPaths, record }: ChatOptions) {
  const ask = async (body: object, signal: AbortSignal): Promise<Response> => {
    const late = new AbortController();
    const end = () => late.abort(signal.reason ?? new APIConnectionError("the chat has waited long enough"));
    const cancel = clock.timer(random.pick(patiencesMs), end);
    signal.addEventListener("abort", end, { once: true });
    try {
      return await fetch(`${baseUrl}/v1/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${keyOf(tenant)}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: late.signal,
      });
    } catch (error) {
      throw error instanceof TypeError ? new APIConnectionError("no answer", { cause: error }) : error;
    } finally {
      cancel();
      signal.removeEventListener("abort", end);
    }
  };
  const textOf = async (response: Response): Promise<string> => {
    const pieces: Uint8Array[] = [];
    const reader = response.body?.getReader();
    try {
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) pieces.push(part.value!);
    } catch (error) {
      throw new APIConnectionError("the answer was cut", { cause: error });
    }
    return Buffer.concat(pieces).toString();
  };
  for (let rounds = random.between(3, 6); rounds > 0; rounds--) {
    await clock.sleep(random.fraction() * 6000);
    const prompt = Array.from({ length: random.between(1, 6) }, () => random.below(firstSpecial));
    const saved = random.chance(0.4) ? samplerPaths() : [];
    const target = saved.length === 0 ? undefined : random.pick(saved);
    const stream = random.chance(0.3);
    const seed = random.below(1_000_000);
    const n = random.chance(0.1) ? 32 : random.between(1, 2);
    const maxTokens = random.between(1, 6);
    const body = {
      model: target?.path ?? baseModel,
      prompt,
      max_tokens: maxTokens,
      n,
      seed,
      stream,
      temperature: 1,
      logprobs: 0,
    };
    await record("chat", async (signal) => {
      const response = await ask(body, signal);
      const text = await textOf(response);
      if (response.status !== 200) return text;
      if (target !== undefined && target.tenant !== tenant)
        problem(`${name} was given a completion of ${target.path} of ${target.tenant}`);
      if (stream || target !== undefined) return text;
      for (const [i, { logprobs }] of (JSON.parse(text) as Completion).choices.entries()) {
        const seen = logprobs?.token_logprobs ?? [];
        const tokens = sampledTokens(baseWeights, prompt, seed + i, maxTokens, vocabularySize);
        const end = tokens.findIndex((token) => token >= firstSpecial || token === 0);
        const expected = tokens.slice(0, end < 0 ? maxTokens : end).map((token) => sampledLogprob(baseWeights, token));
        const least = Math.min(expected.length, seen.length);
        if (seen.slice(0, least).some((value, at) => Math.abs(value - expected[at]!) > 1e-6) || least < expected.length)
          problem(`${name}: a completion has the log-probs ${seen}, and ${expected} were drawn`);
      }
      return text;
    });
  }
}
