/**
 * Shows the rows of a long table that are in or near the window; the others are two empty rows of their height. All rows have the same
 * height, so that a scroll position alone says which rows these are.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges of the window that exist too, so that Tab reaches them and fast scrolling shows no gap. */
const margin = 8;

/** The rows to show. */
export function rowRange(
  box: { readonly top: number; readonly height: number; readonly window: number },
  count: number,
) {
  const { top, height, window } = box;
  const first = Math.floor(-top / height) - margin;
  const from = Math.max(0, Math.min(first, count));
  return { from, to: Math.max(from, Math.min(count, Math.ceil((window - top) / height) + margin)) };
}

export function VirtualRows<Row>(props: {
  readonly rows: readonly Row[];
  /** Pixels of a row, by the width of the window. */
  readonly height: (width: number) => number;
  readonly columns: number;
  readonly children: (row: Row, index: number) => ComponentChildren;
  /** Called with the end of the rows that are shown: a list that is loaded page by page loads the next one. */
  readonly onShown?: (to: number) => void;
}) {
  const { rows, columns } = props;
  const top = useRef<HTMLTableSectionElement>(null);
  const [height, setHeight] = useState(() => props.height(innerWidth));
  const [{ from, to }, setRange] = useState({ from: 0, to: Math.min(rows.length, 60) });
  useEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      const one = props.height(innerWidth);
      setHeight(one);
      const box = { top: top.current?.getBoundingClientRect().top ?? 0, height: one, window: innerHeight };
      const next = rowRange(box, rows.length);
      setRange((before) => (before.from === next.from && before.to === next.to ? before : next));
      props.onShown?.(next.to);
    };
    const later = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", later);
      removeEventListener("resize", later);
    };
  }, [rows.length]);
  const end = Math.min(to, rows.length);
  const begin = Math.min(from, end);
  return (
    <tbody ref={top}>
      <Gap rows={begin} height={height} columns={columns} />
      {rows.slice(begin, end).map((row, i) => props.children(row, begin + i))}
      <Gap rows={rows.length - end} height={height} columns={columns} />
    </tbody>
  );
}

const Gap = ({
  rows,
  height,
  columns,
}: {
  readonly rows: number;
  readonly height: number;
  readonly columns: number;
}) =>
  rows === 0 ? null : (
    <tr class="gap">
      <td colSpan={columns} style={{ height: `${rows * height}px` }} />
    </tr>
  );
