/** What a case is: an id, why it matters, what the official service does, and a body that fails by throwing. */
import type { NewerRelease } from "@tinklet/wire";
import type { Context } from "./context.ts";

/** A release of the official SDK that brought something to the wire. Servers of 0.25 have nothing that is newer. */
export type Release = "0.25" | NewerRelease;

/** One thing that a server of the Tinker API must do. */
export interface Case {
  /** Unique: `group/what-it-holds`. Stable, so that reports can be compared. */
  readonly id: string;
  /** One line: what goes wrong for a user when this does not hold. */
  readonly reason: string;
  /** One line: what the official service does. */
  readonly official: string;
  /** The release of the official SDK that first asks for it. */
  readonly since: Release;
  /** Returns when it holds; throws {@link Failed} when it does not and {@link NotOffered} when it cannot be asked. */
  readonly run: (context: Context) => Promise<void>;
  /** The kit must be able to restart the server for this one. @defaultValue false */
  readonly needsRestart?: boolean;
}

/** Cases about one promise. */
export interface Group {
  readonly name: string;
  /** The promise, in one line. */
  readonly title: string;
  readonly cases: readonly Case[];
}

type Body = (context: Context) => Promise<void>;

/** Makes a group; each case is `[name, reason, official, body, since]`, and as old as 0.25 where it does not say. */
export function group(
  name: string,
  title: string,
  cases: readonly (readonly [name: string, reason: string, official: string, run: Body, since?: Release])[],
  options: { readonly needsRestart?: boolean } = {},
): Group {
  return {
    name,
    title,
    cases: cases.map(([id, reason, official, run, since = "0.25"]) => ({
      id: `${name}/${id}`,
      reason,
      official,
      since,
      run,
      ...options,
    })),
  };
}
