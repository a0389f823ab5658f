/** The memory budget of an engine in Node without the option. */
import { totalmem } from "node:os";

/** Default share of the machine's memory. */
const defaultShare = 0.8;

/** The default budget: a share of the machine's memory, or of the container's limit if that is lower. */
export function defaultMemoryBudget(machine = totalmem(), container = process.constrainedMemory()): number {
  const limit = container !== undefined && container > 0 ? Math.min(machine, container) : machine;
  return Math.floor(limit * defaultShare);
}
