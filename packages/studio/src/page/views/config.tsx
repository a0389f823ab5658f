/** The configuration of runs; with several runs, differing values come first. */
import type { JsonValue } from "@tinklet/wire";
import { oneLine } from "../text.ts";

interface Configured {
  readonly key: string;
  readonly name: string;
  readonly config: Readonly<Record<string, JsonValue>>;
}

const maxEntries = 400;

/** Converts `{ lora: { rank: 8 } }` to `lora.rank: 8`. */
export function flatten(value: JsonValue, path = "", into = new Map<string, string>()): Map<string, string> {
  if (into.size >= maxEntries) return into;
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const entries = isObject ? Object.entries(value as Record<string, JsonValue>) : [];
  if (entries.length === 0) into.set(path, typeof value === "string" ? value : JSON.stringify(value));
  for (const [key, inner] of entries) flatten(inner, path === "" ? key : `${path}.${key}`, into);
  return into;
}

const differences = (count: number): string => `${count} ${count === 1 ? "difference" : "differences"}`;

export function Config({ runs }: { readonly runs: readonly Configured[] }) {
  const flat = runs.map(({ config }) => flatten(config as JsonValue));
  const names = [...new Set(flat.flatMap((one) => [...one.keys()]))];
  const differs = (name: string) => new Set(flat.map((one) => one.get(name))).size > 1;
  const sorted = [...names.filter(differs), ...names.filter((name) => !differs(name))];
  return (
    <details class="panel" open={runs.length > 1}>
      <summary>Configuration{runs.length > 1 ? `: ${differences(names.filter(differs).length)}` : ""}</summary>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Setting</th>
              {runs.map(({ key, name }) => (
                <th key={key} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.map((name) => (
              <tr key={name} class={differs(name) ? "differs" : ""}>
                <th scope="row">
                  <code>{oneLine(name, 80)}</code>
                </th>
                {flat.map((one, i) => (
                  <td key={runs[i]!.key}>{one.has(name) ? oneLine(one.get(name)!, 200) : "–"}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
