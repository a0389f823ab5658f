/** Listings over several pages, as the official tool fetches them, with progress where it takes more than one. */
import type { Output } from "./output/output.ts";

interface Page<T> {
  readonly items: readonly T[];
  /** How many there are in all; absent where the server does not count. */
  readonly total?: number | undefined;
}

/**
 * Fetches `limit` items (0: all), `pageSize` at a time; a short page ends it early.
 */
export async function fetchUpTo<T>(
  limit: number,
  pageSize: number,
  fetch: (page: { limit: number; offset: number }) => Promise<Page<T>>,
  report: { readonly output: Output; readonly what: string },
): Promise<{ readonly items: readonly T[]; readonly total: number }> {
  const first = await fetch({ limit: limit > 0 ? Math.min(pageSize, limit) : pageSize, offset: 0 });
  const items = [...first.items];
  const total = first.total ?? items.length;
  const target = Math.min(limit > 0 ? limit : total, total);
  while (items.length < target) {
    report.output.progress(`Fetching ${report.what}: ${items.length} of ${target}`);
    const wanted = Math.min(pageSize, target - items.length);
    const page = await fetch({ limit: wanted, offset: items.length });
    items.push(...page.items);
    if (page.items.length < wanted) break;
  }
  report.output.endProgress();
  return { items, total };
}

/** The end of a title when there are more. */
export function moreNotShown(total: number | undefined, shown: number): string {
  return total !== undefined && total > shown ? ` (${total - shown} more not shown, use --limit to see more)` : "";
}
