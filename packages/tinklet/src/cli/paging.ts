/** Fetches lists page by page, with the official tool's page sizes, and shows the progress after the first page. */
import type { Output } from "./output/output.ts";

interface Page<T> {
  readonly items: readonly T[];
  /** Total number on the server; absent if the server does not count. */
  readonly total?: number | undefined;
}

/**
 * Fetches `limit` items (0: all), `pageSize` at a time, until a page is not full.
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

/** Suffix of a title when the list was cut. */
export function moreNotShown(total: number | undefined, shown: number): string {
  return total !== undefined && total > shown ? ` (${total - shown} more not shown, use --limit to see more)` : "";
}
