/** The current view, stored in the URL fragment, so that every view has a link and the server needs no route for it. */
import { signal } from "@preact/signals";

export interface Place {
  /** Decoded segments of the path. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

export function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

/** The URL of a place. */
export function placeUrl(path: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const present = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const text = new URLSearchParams(present).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

export const place = signal<Place>(parsePlace(location.hash));
addEventListener("hashchange", () => {
  place.value = parsePlace(location.hash);
});

/** Ids in the URL to compare with `id`. */
export const comparedWith = (id: string): readonly string[] =>
  (place.value.query.get("compare") ?? "").split(",").filter((other) => other !== "" && other !== id);

/** Navigates without a history entry. */
export function replacePlace(url: string): void {
  history.replaceState(null, "", url);
  place.value = parsePlace(location.hash);
}
