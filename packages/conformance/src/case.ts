/** The type of a case: an id, its reason, the official behaviour, and a body that throws if the server behaves differently. */
import type { NewerRelease } from "@tinklet/wire";
import type { Context } from "./context.ts";

/** A release of the official SDK that extended the wire protocol. A server of 0.25 supports none of the newer extensions. */
export type Release = "0.25" | NewerRelease;

/** One requirement for a server of the Tinker API. */
export interface Case {
  /** Unique: `group/requirement`. Stable across versions, so that reports can be compared. */
  readonly id: string;
  /** One line: the consequence for users if the requirement is not met. */
  readonly reason: string;
  /** One line: the behaviour of the official service. */
  readonly official: string;
  /** The first release of the official SDK that uses it. */
  readonly since: Release;
  /** Returns if the requirement is met; throws {@link Failed} if it is not and {@link NotOffered} if the server does not have the feature. */
  readonly run: (context: Context) => Promise<void>;
  /** Whether the case restarts the server. @defaultValue false */
  readonly needsRestart?: boolean;
}

/** Cases about one topic. */
export interface Group {
  readonly name: string;
  /** The common requirement, in one line. */
  readonly title: string;
  readonly cases: readonly Case[];
}

type Body = (context: Context) => Promise<void>;

/** Creates a group; each case is `[name, reason, official, body, since]`. `since` defaults to 0.25. */
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
