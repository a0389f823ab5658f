/** Streams a model's answer from the OpenAI-compatible endpoints. */
import { CallError, readEvents, send } from "../api.ts";

/** A message of a chat. */
export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface AnswerRequest {
  readonly model: string;
  readonly mode: "chat" | "complete";
  /** The text to continue, in the mode `complete`. */
  readonly prompt: string;
  /** The conversation, in the mode `chat`. */
  readonly messages: readonly Message[];
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
}

/** A piece of an answer, with its log-prob and the most likely alternatives if the server sends them. */
export interface Token {
  readonly text: string;
  readonly logprob?: number | undefined;
  readonly others?: readonly { readonly text: string; readonly logprob: number }[] | undefined;
}

interface Chunk {
  readonly error?: { readonly message?: string };
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null };
    readonly text?: string;
    readonly logprobs?: {
      readonly content?: readonly {
        readonly token: string;
        readonly logprob: number;
        readonly top_logprobs?: readonly { readonly token: string; readonly logprob: number }[];
      }[];
    } | null;
  }[];
}

/** Number of alternatives requested per token. */
const alternatives = 5;

/** @throws {@link CallError} */
export async function* stream(asked: AnswerRequest, signal: AbortSignal): AsyncGenerator<Token> {
  const { model, mode, prompt, messages, temperature, seed } = asked;
  const common = { model, temperature, seed, max_tokens: asked.maxTokens, stream: true };
  const body =
    mode === "chat" ? { ...common, messages, logprobs: true, top_logprobs: alternatives } : { ...common, prompt };
  const response = await send(mode === "chat" ? "/v1/chat/completions" : "/v1/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  for await (const data of readEvents(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error !== undefined) throw new CallError(chunk.error.message ?? "The stream ended with an error.", 0);
    const [choice] = chunk.choices ?? [];
    const text = choice?.delta?.content ?? choice?.text ?? "";
    const tokenLogprobs = choice?.logprobs?.content ?? [];
    const [only] = tokenLogprobs;
    if (tokenLogprobs.length === 1 && only !== undefined && only.token === text) {
      const others = only.top_logprobs?.map(({ token, logprob }) => ({ text: token, logprob }));
      yield { text, logprob: only.logprob, others };
    } else if (text !== "") yield { text };
  }
}
