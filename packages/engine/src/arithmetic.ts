/**
 * The number of this release's arithmetic. Whoever stores passes to run them again (a server after a crash) stores it beside them: under
 * another number the same passes on the same machine may differ in their last bits.
 */

/**
 * Raised by every change after which a pass, a step or a sample gives other bits than before on the same machine and runtime.
 * 2: data of one request that share a prefix are computed together.
 */
export const arithmeticVersion: number = 2;
