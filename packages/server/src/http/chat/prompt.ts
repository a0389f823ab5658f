/**
 * Converts texts and conversations to token ids that fit the model's context. Short texts are encoded on the main thread; long ones and all
 * conversations on a side thread, because a chat template is a program of the model that may not terminate.
 */
import { ModelError } from "@tinklet/models";
import { Refusal } from "../../queue/refusal.ts";
import { shuttingDown } from "../../queue/sampling/transient-sample.ts";
import { type ChatPrompt, type Conversation, encodeText } from "../../thread/chat-tasks.ts";
import { type SideThread, TaskError, ThreadClosed, ThreadDied, ThreadTimeout } from "../../thread/side-thread.ts";
import type { Api, Call, ServedModel } from "../api.ts";
import type { ChatContext } from "./answer-chat.ts";
import type { ChatModel } from "./chat-models.ts";
import { badField } from "./fields.ts";
import type { NamedModel } from "./model-names.ts";
import type { PromptThreads } from "./prompt-threads.ts";

/** Upper bound of the average characters per token of any tokenizer: longer texts cannot fit the context. */
const charactersPerToken = 32;

/** Bodies up to this size are encoded on the main thread, because a message to another thread takes longer. */
const smallBytes = 2048;

const tooLong = (param: string, tokens: number | string, served: ServedModel): Refusal =>
  badField(
    param,
    // litellm recognises the error by OpenAI's words, up to "is"
    `This model's maximum context length is ${served.info.contextLength} tokens, prompt and reply together, and the prompt has ${tokens}. Shorten the ${param}`,
    "context_length_exceeded",
  );

/** The context in which a prompt is made. */
export interface PromptContext {
  readonly api: Pick<Api, "promptThreads" | "limits">;
  readonly model: ChatModel;
  readonly served: ServedModel;
  readonly tenant: string;
  /** Size of the request body. */
  readonly bytes: number;
  /** The parameter that errors name. */
  readonly param: string;
}

/** @param param - the parameter that holds the prompt. @throws {@link Refusal} 400 when the model has no tokenizer */
export async function promptContext(
  { api, modelOf }: ChatContext,
  call: Call,
  { served, param }: Pick<NamedModel, "served"> & Pick<PromptContext, "param">,
): Promise<PromptContext> {
  const { tenant } = call.caller;
  return { api, model: await modelOf(served), served, tenant, bytes: call.bytes.byteLength, param };
}

/** Token ids of a text. @throws {@link Refusal} 400 when they do not fit */
export async function encodePrompt(context: PromptContext, text: string): Promise<Int32Array> {
  const { model, served } = context;
  const longest = served.info.contextLength * charactersPerToken;
  const task = { text, addSpecialTokens: true, longest };
  if (context.bytes <= smallBytes) return withRefusals(context, async () => encodeText(model.tokenizer, task));
  return onThread(context, (thread, options) => thread.run("encodeText", { name: served.name, ...task }, options));
}

/** The prompt of a conversation. @throws {@link Refusal} 400 when the template rejects it, or it does not fit */
export async function renderPrompt(context: PromptContext, conversation: Conversation): Promise<ChatPrompt> {
  const { served } = context;
  const { contextLength } = served.info;
  if (conversation.messages.length > contextLength) throw tooLong(context.param, `more than ${contextLength}`, served);
  const longest = contextLength * charactersPerToken;
  const task = { name: served.name, conversation, longest };
  const chatPrompt = await onThread(context, (thread, options) => thread.run("renderChat", task, options));
  checkContextLength(context, chatPrompt.prompt.length);
  return chatPrompt;
}

/** @param maxTokens - of the reply; unless it is 0, one token must fit. @throws {@link Refusal} 400 when the prompt is too long */
export function checkContextLength({ served, param }: PromptContext, promptTokens: number, maxTokens = 1): void {
  if (promptTokens + Math.min(maxTokens, 1) > served.info.contextLength) throw tooLong(param, promptTokens, served);
}

type ThreadRun<T> = (thread: SideThread, options: { readonly limitMs: number }) => Promise<T>;

/** Runs a task on a prompt thread, within the time limit of a prompt. */
async function onThread<T>(context: PromptContext, run: ThreadRun<T>): Promise<T> {
  const { api, tenant, model, served } = context;
  return withRefusals(context, () =>
    onePerTenant(context, async () => {
      const thread = api.promptThreads.of(tenant);
      const attempt = async (): Promise<T> => {
        try {
          return await run(thread, { limitMs: api.limits.promptMs });
        } catch (error) {
          if (error instanceof ThreadTimeout) api.promptThreads.timedOut(tenant);
          throw error;
        }
      };
      try {
        return await attempt();
      } catch (error) {
        // a new thread has no tokenizers
        if (!(error instanceof TaskError) || error.task !== "UnknownTokenizer") throw error;
      }
      await thread.run("openTokenizer", { name: served.name, files: model.files });
      return attempt();
    }),
  );
}

/** Converts errors of making a prompt to refusals that name the parameter. @throws {@link Refusal} */
async function withRefusals<T>({ api, served, param }: PromptContext, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (error instanceof ThreadClosed) throw shuttingDown();
    if (error instanceof ThreadDied) throw badField(param, "needs more memory than the limit", "prompt_too_large");
    if (error instanceof ThreadTimeout) {
      const problem = `the chat template of ${served.name} must render it within ${api.limits.promptMs} ms, and took longer`;
      throw badField(param, problem, "chat_template");
    }
    const name = error instanceof TaskError ? error.task : (error as Error)?.name;
    if (name === "TextTooLong") throw tooLong(param, `more than ${served.info.contextLength}`, served);
    // A template is a program of the model: any other error that it throws is about this conversation.
    const hasReason = error instanceof ModelError || error instanceof TaskError;
    const reason = hasReason ? (error as Error).message : `the chat template failed: ${String(error)}`;
    throw badField(param, reason.slice(0, 500), "chat_template");
  }
}

/** The last queued prompt of each tenant. */
const queues = new WeakMap<PromptThreads, Map<string, Promise<unknown>>>();

/** Submits one prompt per tenant at a time to the threads, so that many prompts of one tenant do not delay those of others. */
async function onePerTenant<T>({ api, tenant }: PromptContext, run: () => Promise<T>): Promise<T> {
  const lastOf = queues.get(api.promptThreads) ?? new Map<string, Promise<unknown>>();
  queues.set(api.promptThreads, lastOf);
  const result = (lastOf.get(tenant) ?? Promise.resolve()).then(run);
  const settled = result.catch(() => {});
  lastOf.set(tenant, settled);
  try {
    return await result;
  } finally {
    if (lastOf.get(tenant) === settled) lastOf.delete(tenant);
  }
}
