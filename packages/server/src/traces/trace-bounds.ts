/** Bounds of one export of traces, checked before and while it is parsed. */
export interface TraceBounds {
  /** Nested values of a binary export; objects, arrays and keys of one in JSON. */
  readonly parts: number;
  /** Spans of one export. */
  readonly spans: number;
  /** Attributes of one span, those of its events included. */
  readonly attributes: number;
  /** Levels of a value within a value. */
  readonly depth: number;
  /** UTF-16 code units of one string. */
  readonly textLength: number;
}

/** An export that cannot be read at all. */
export class BadExport extends Error {
  override readonly name = "BadExport";
}

/** An export that is larger than a bound. */
export class ExportTooLarge extends Error {
  override readonly name = "ExportTooLarge";
}

/** A span that cannot be stored; the other spans of its export can. */
export class BadSpan extends Error {
  override readonly name = "BadSpan";
}
