/** Where the page is: the fragment of its address, so that every view can be linked to and the server needs no path for it. */
import { signal } from "@preact/signals";

export interface Place {
  /** Parts of the path, decoded. */
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

/** A place as an address. */
export function placeUrl(path: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

export const place = signal<Place>(parsePlace(location.hash));
addEventListener("hashchange", () => {
  place.value = parsePlace(location.hash);
});

/** The others that the address asks to compare with one. */
export const comparedWith = (id: string): readonly string[] =>
  (place.value.query.get("compare") ?? "").split(",").filter((other) => other !== "" && other !== id);

/** Goes somewhere without a step in the history. */
export function replacePlace(url: string): void {
  history.replaceState(null, "", url);
  place.value = parsePlace(location.hash);
}
