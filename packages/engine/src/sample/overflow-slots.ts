/**
 * Sequences that may be drawn beyond the batch, by scopes that have none in it: nobody waits for the end of another's replies, however
 * long they are. Whoever feeds the sampler lets as many through when its own count is full.
 */
export const overflowSlots = 8;
