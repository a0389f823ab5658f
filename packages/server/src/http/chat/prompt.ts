/**
 * Texts and conversations as token ids, within what the model's context can take. Short texts are encoded at once; long ones, and all
 * conversations, go to a thread: a chat template is a program that comes with a model, and may run for ever.
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

/** Longer texts have more tokens than the context: no tokenizer has words of so many characters on average. */
const charactersPerToken = 32;

/** Texts of bodies up to this are not worth another thread. */
const smallBytes = 2048;

const tooLong = (param: string, tokens: number | string, served: ServedModel): Refusal =>
  badField(
    param,
    `${tokens} tokens leave no room in the context of ${served.info.contextLength} of ${served.name}`,
    "context_length_exceeded",
  );

/** Where a prompt is made, and for what. */
export interface PromptPlace {
  readonly api: Pick<Api, "promptThreads" | "limits">;
  readonly model: ChatModel;
  readonly served: ServedModel;
  readonly tenant: string;
  /** Bytes of the body that it comes from. */
  readonly bytes: number;
  /** The parameter that is at fault when it cannot be made. */
  readonly param: string;
}

/** @param param - what a client calls the prompt. @throws {@link Refusal} 400 where the model has no tokenizer */
export async function promptPlace(
  { api, modelOf }: ChatContext,
  call: Call,
  { served, param }: Pick<NamedModel, "served"> & Pick<PromptPlace, "param">,
): Promise<PromptPlace> {
  const { tenant } = call.caller;
  return { api, model: await modelOf(served), served, tenant, bytes: call.bytes.byteLength, param };
}

/** A text's ids. @throws {@link Refusal} 400 when they do not fit */
export async function encodePrompt(place: PromptPlace, text: string): Promise<Int32Array> {
  const { model, served } = place;
  const longest = served.info.contextLength * charactersPerToken;
  const task = { text, addSpecialTokens: true, longest };
  if (place.bytes <= smallBytes) return told(place, async () => encodeText(model.tokenizer, task));
  return onThread(place, (thread, options) => thread.run("encodeText", { name: served.name, ...task }, options));
}

/** A conversation as a prompt. @throws {@link Refusal} 400 when the template refuses it, or it does not fit */
export async function renderPrompt(place: PromptPlace, conversation: Conversation): Promise<ChatPrompt> {
  const { served } = place;
  const { contextLength } = served.info;
  if (conversation.messages.length > contextLength) throw tooLong(place.param, `more than ${contextLength}`, served);
  const longest = contextLength * charactersPerToken;
  const task = { name: served.name, conversation, longest };
  const chatPrompt = await onThread(place, (thread, options) => thread.run("renderChat", task, options));
  checkRoom(place, chatPrompt.prompt.length);
  return chatPrompt;
}

/** @param wanted - tokens that must have room behind the prompt. @throws {@link Refusal} 400 when they have none */
export function checkRoom({ served, param }: PromptPlace, promptTokens: number, wanted = 1): void {
  if (promptTokens + Math.min(wanted, 1) > served.info.contextLength) throw tooLong(param, promptTokens, served);
}

type ThreadRun<T> = (thread: SideThread, options: { readonly limitMs: number }) => Promise<T>;

/** Runs a task on a thread, in its tenant's turn and within the time that a prompt may take. */
async function onThread<T>(place: PromptPlace, run: ThreadRun<T>): Promise<T> {
  const { api, tenant, model, served } = place;
  return told(place, () =>
    inTurn(place, async () => {
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
        // A thread that was just started knows no tokenizer.
        if (!(error instanceof TaskError) || error.task !== "UnknownTokenizer") throw error;
      }
      await thread.run("openTokenizer", { name: served.name, files: model.files });
      return attempt();
    }),
  );
}

/** Says what is wrong with a prompt in words about the request. @throws {@link Refusal} */
async function told<T>({ api, served, param }: PromptPlace, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (error instanceof ThreadClosed) throw shuttingDown();
    if (error instanceof ThreadDied) throw badField(param, "is more than this server can read", "prompt_too_large");
    if (error instanceof ThreadTimeout) {
      const problem = `the prompt must be made within ${api.limits.promptMs} ms, and the chat template of ${served.name} took longer`;
      throw badField(param, problem, "chat_template");
    }
    const name = error instanceof TaskError ? error.task : (error as Error)?.name;
    if (name === "TextTooLong") throw tooLong(param, `more than ${served.info.contextLength}`, served);
    // Templates are programs that come with models: whatever they throw is about this conversation.
    const isTold = error instanceof ModelError || error instanceof TaskError;
    const reason = isTold ? (error as Error).message : `the chat template failed: ${String(error)}`;
    throw badField(param, reason.slice(0, 500), "chat_template");
  }
}

/** The last prompt of each tenant that has some on a thread. */
const lines = new WeakMap<PromptThreads, Map<string, Promise<unknown>>>();

/** One prompt of a tenant is on a thread at a time, so that many of one do not come before those of others. */
async function inTurn<T>({ api, tenant }: PromptPlace, run: () => Promise<T>): Promise<T> {
  const lastOf = lines.get(api.promptThreads) ?? new Map<string, Promise<unknown>>();
  lines.set(api.promptThreads, lastOf);
  const turn = (lastOf.get(tenant) ?? Promise.resolve()).then(run);
  const settled = turn.catch(() => {});
  lastOf.set(tenant, settled);
  try {
    return await turn;
  } finally {
    if (lastOf.get(tenant) === settled) lastOf.delete(tenant);
  }
}
