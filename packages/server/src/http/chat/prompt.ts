/**
 * Texts and conversations as token ids, within what the model's context can take. Small ones are made at once; what a client has made large
 * goes to a thread, so that nobody else waits for it.
 */
import { ModelError } from "@tinklet/models";
import { shuttingDown } from "../../queue/draw.ts";
import { Refusal } from "../../queue/refusal.ts";
import { type ChatPrompt, type Conversation, encodeText, renderChat } from "../../thread/chat-tasks.ts";
import { type SideThread, TaskError, ThreadClosed, ThreadDied } from "../../thread/side-thread.ts";
import type { Api, Call, ServedModel } from "../api.ts";
import type { ChatContext } from "./answer-chat.ts";
import type { ChatModel } from "./chat-models.ts";
import { badField } from "./fields.ts";
import type { NamedModel } from "./model-names.ts";

/** Longer texts have more tokens than the context: no tokenizer has words of so many characters on average. */
const charactersPerToken = 32;

/** Bodies up to this are not worth another thread. */
const smallBytes = 2048;

const tooLong = (param: string, tokens: number | string, served: ServedModel): Refusal =>
  badField(
    param,
    `${tokens} tokens leave no room in the context of ${served.info.contextLength} of ${served.name}`,
    "context_length_exceeded",
  );

/** Where a prompt is made, and for what. */
export interface PromptPlace {
  readonly api: Pick<Api, "promptThread">;
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
  return made(place, {
    here: () => encodeText(model.tokenizer, task),
    there: () => place.api.promptThread.run("encodeText", { name: served.name, ...task }),
  });
}

/** A conversation as a prompt. @throws {@link Refusal} 400 when the template refuses it, or it does not fit */
export async function renderPrompt(place: PromptPlace, conversation: Conversation): Promise<ChatPrompt> {
  const { model, served } = place;
  const { contextLength } = served.info;
  if (conversation.messages.length > contextLength) throw tooLong(place.param, `more than ${contextLength}`, served);
  const longest = contextLength * charactersPerToken;
  const chatPrompt = await made(place, {
    here: () => renderChat(model, conversation, longest),
    there: () => place.api.promptThread.run("renderChat", { name: served.name, conversation, longest }),
  });
  checkRoom(place, chatPrompt.prompt.length);
  return chatPrompt;
}

/** @param wanted - tokens that must have room behind the prompt. @throws {@link Refusal} 400 when they have none */
export function checkRoom({ served, param }: PromptPlace, promptTokens: number, wanted = 1): void {
  if (promptTokens + Math.min(wanted, 1) > served.info.contextLength) throw tooLong(param, promptTokens, served);
}

async function made<T>(
  place: PromptPlace,
  { here, there }: { readonly here: () => T; readonly there: () => Promise<T> },
): Promise<T> {
  const { served, param, bytes } = place;
  try {
    return bytes <= smallBytes ? here() : await inTurn(place, () => onThread(place, there));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (error instanceof ThreadClosed) throw shuttingDown();
    if (error instanceof ThreadDied) throw badField(param, "is more than this server can read", "prompt_too_large");
    const name = error instanceof TaskError ? error.task : (error as Error)?.name;
    if (name === "TextTooLong") throw tooLong(param, `more than ${served.info.contextLength}`, served);
    // Templates are programs that come with models: whatever they throw is about this conversation.
    const isTold = error instanceof ModelError || error instanceof TaskError;
    const told = isTold ? (error as Error).message : `the chat template failed: ${String(error)}`;
    throw badField(param, told.slice(0, 500), "chat_template");
  }
}

/** The last prompt of each tenant that has some on a thread. */
const lines = new WeakMap<SideThread, Map<string, Promise<unknown>>>();

/** One prompt of a tenant is on the thread at a time, so that many of one do not come before those of others. */
async function inTurn<T>({ api, tenant }: PromptPlace, run: () => Promise<T>): Promise<T> {
  const lastOf = lines.get(api.promptThread) ?? new Map<string, Promise<unknown>>();
  lines.set(api.promptThread, lastOf);
  const turn = (lastOf.get(tenant) ?? Promise.resolve()).then(run);
  const settled = turn.catch(() => {});
  lastOf.set(tenant, settled);
  try {
    return await turn;
  } finally {
    if (lastOf.get(tenant) === settled) lastOf.delete(tenant);
  }
}

/** A thread that was just started knows no tokenizer. */
async function onThread<T>({ api, model, served }: PromptPlace, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TaskError) || error.task !== "UnknownTokenizer") throw error;
    await api.promptThread.run("openTokenizer", { name: served.name, files: model.files });
    return run();
  }
}
