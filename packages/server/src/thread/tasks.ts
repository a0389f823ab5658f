/** Tasks of the server's side thread: work whose size the client chooses, and that would block the event loop. */
import type { PeftBase, PeftState } from "@tinklet/models";
import { CustomLossGraph, CustomLossInput, parseJson, TensorData, unpackZstdFrame } from "@tinklet/wire";
import { CustomLossError } from "../custom-loss/custom-loss-error.ts";
import { type ReadLoss, readLoss } from "../custom-loss/read-loss.ts";
import { type LossInput, type LossOfDatum, runLoss } from "../custom-loss/run-loss.ts";
import { chatTasks } from "./chat-tasks.ts";
import { traceTasks } from "./trace-tasks.ts";

/** A tensor of a datum as received, perhaps sparse. Plain data: a message to a thread carries no methods. */
export type SentTensor = Parameters<typeof TensorData.ofParts>[0];

/** One datum that a loss is run on. */
export interface SentDatum {
  /** Index within the pass, for error messages. */
  readonly index: number;
  readonly inputs: Readonly<Record<string, SentTensor>>;
  readonly logprobs: LossInput;
}

/** Datums of one pass, as many as fit into a message. */
export interface LossesRequest {
  /** JSON of the loss's inputs and graph. */
  readonly body: string;
  readonly data: readonly SentDatum[];
  /** Tensor elements that the pass may still allocate. */
  readonly elements: number;
}

export interface LossesResult {
  readonly losses: readonly LossOfDatum[];
  /** Tensor elements that remain of the budget. */
  readonly elements: number;
}

/** Parses a stored loss. @throws CustomLossError */
function lossOf(body: string): ReadLoss {
  const { inputs, graph } = parseJson(body) as { inputs: unknown[]; graph: unknown };
  return readLoss(inputs.map(CustomLossInput.decode), CustomLossGraph.decode(graph));
}

export const tasks = {
  ...chatTasks,
  ...traceTasks,

  /** The names of a loss's inputs. @throws CustomLossError when the loss is invalid */
  readLoss: (body: string): readonly string[] => lossOf(body).inputs.map(({ name }) => name),

  /** Runs a loss on each datum. @throws CustomLossError naming the datum */
  runLosses: ({ body, data, elements }: LossesRequest): LossesResult => {
    const loss = lossOf(body);
    const budget = { elements };
    const losses = data.map(({ index, inputs, logprobs }) => {
      try {
        const dense: Record<string, LossInput> = {};
        for (const { name, rank } of loss.inputs) {
          const sent = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
          if (sent !== undefined) dense[name] = denseOf(sent, rank === 0);
        }
        return runLoss(loss, { ...dense, logprobs }, budget);
      } catch (error) {
        if (!(error instanceof CustomLossError)) throw error;
        throw new CustomLossError(error.message, `data[${index}]`);
      }
    });
    return { losses, elements: budget.elements };
  },

  /** The adapter in a PEFT folder. @throws ModelError when it is not one of this model */
  readPeft: async ({ folder, base }: { folder: string; base: PeftBase }): Promise<PeftState> => {
    const { readPeft } = await import("@tinklet/models"); // loaded on demand: the other tasks do not need it
    return readPeft(folder, base);
  },

  /** The content of one zstd frame; `undefined` if it is longer than `capacity` or damaged. */
  unpackZstd: ({ bytes, capacity }: { bytes: Uint8Array; capacity: number }): Promise<Uint8Array | undefined> =>
    unpackZstdFrame(bytes, capacity),
};

export type Tasks = typeof tasks;
export type TaskName = keyof Tasks;

/**
 * The dense form of a tensor; its numbers are converted when they are read.
 *
 * @param scalar - whether the loss expects a scalar, whose shape the wire cannot distinguish from a missing shape.
 */
function denseOf(parts: SentTensor, scalar: boolean): LossInput {
  const { values, shape = [values.length], dtype } = parts;
  const isScalar = scalar && shape.length <= 1 && (shape[0] ?? 1) === 1;
  return {
    shape: isScalar ? [] : shape,
    dtype,
    get data() {
      return Float64Array.from(TensorData.ofParts(parts).toDense().values as ArrayLike<number>, Number);
    },
  };
}
