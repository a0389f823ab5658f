/**
 * Slots beyond the batch, for scopes without a sequence in a full batch: a tenant's request starts even while other tenants' long samples
 * fill the batch. The server admits this many more requests when its own count is full.
 */
export const overflowSlots = 8;
