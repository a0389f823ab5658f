/** What the server's side thread can be asked for: work that a client sizes, and that would hold the event loop up. */
import type { PeftBase, PeftState } from "@tinklet/models";
import { CustomLossGraph, CustomLossInput, parseJson, TensorData, unpackZstdFrame } from "@tinklet/wire";
import { CustomLossError } from "../custom-loss/custom-loss-error.ts";
import { type ReadLoss, readLoss } from "../custom-loss/read-loss.ts";
import { type LossInput, type LossOfDatum, runLoss } from "../custom-loss/run-loss.ts";
import { chatTasks } from "./chat-tasks.ts";

/** A tensor of a datum as it came, perhaps sparse; what a thread is sent has no methods. */
export type SentTensor = Parameters<typeof TensorData.ofParts>[0];

/** One datum that a loss is run on. */
export interface SentDatum {
  /** Its place in the pass, for messages. */
  readonly index: number;
  readonly inputs: Readonly<Record<string, SentTensor>>;
  readonly logprobs: LossInput;
}

/** Data of one pass, as many as fit into a message. */
export interface LossesRequest {
  /** JSON of the loss's inputs and graph. */
  readonly body: string;
  readonly data: readonly SentDatum[];
  /** Elements that the pass may still make. */
  readonly elements: number;
}

export interface LossesResult {
  readonly losses: readonly LossOfDatum[];
  /** Elements that are left. */
  readonly elements: number;
}

/** The loss that a stored text says. @throws CustomLossError */
function lossOf(body: string): ReadLoss {
  const { inputs, graph } = parseJson(body) as { inputs: unknown[]; graph: unknown };
  return readLoss(inputs.map(CustomLossInput.decode), CustomLossGraph.decode(graph));
}

export const tasks = {
  ...chatTasks,

  /** The names of a loss's inputs. @throws CustomLossError when it may not run */
  readLoss: (body: string): readonly string[] => lossOf(body).inputs.map(({ name }) => name),

  /** Runs a loss on each datum. @throws CustomLossError naming the datum */
  runLosses: ({ body, data, elements }: LossesRequest): LossesResult => {
    const loss = lossOf(body);
    const budget = { elements };
    const losses = data.map(({ index, inputs, logprobs }) => {
      try {
        const dense: Record<string, LossInput> = {};
        for (const { name, rank } of loss.inputs) {
          const given = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
          if (given !== undefined) dense[name] = denseOf(given, rank === 0);
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
    const { readPeft } = await import("@tinklet/models"); // which the other tasks do not need
    return readPeft(folder, base);
  },

  /** The content of one zstd frame; none when it is longer than `capacity` or damaged. */
  unpackZstd: ({ bytes, capacity }: { bytes: Uint8Array; capacity: number }): Promise<Uint8Array | undefined> =>
    unpackZstdFrame(bytes, capacity),
};

export type Tasks = typeof tasks;
export type TaskName = keyof Tasks;

/**
 * The tensor without sparseness; the numbers are made when they are read.
 *
 * @param scalar - whether one is expected: the wire writes its shape as it writes none.
 */
function denseOf(parts: SentTensor, scalar: boolean): LossInput {
  const { values, shape = [values.length], dtype } = parts;
  const own = scalar && shape.length <= 1 && (shape[0] ?? 1) === 1 ? [] : shape;
  return {
    shape: own,
    dtype,
    get data() {
      return Float64Array.from(TensorData.ofParts(parts).toDense().values as ArrayLike<number>, Number);
    },
  };
}
