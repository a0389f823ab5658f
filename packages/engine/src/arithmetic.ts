/**
 * The version of this release's arithmetic. A server stores it with the passes that it may run again after a crash: under another version
 * the same passes on the same machine may differ in their last bits.
 */

/**
 * Increased by every change after which a pass, a step or a sample has other bits on the same machine and runtime. 2: data of one request
 * with a common prefix are computed together.
 */
export const arithmeticVersion: number = 2;
