/** Renames tensors of a safetensors file: writes a new header and copies the data unchanged, in chunks. */
import { WeightsError } from "../errors.ts";
import { frameHeader } from "./encode-safetensors.ts";
import { readSafetensorsHeader } from "./safetensors.ts";
import { WeightFile } from "./weight-file.ts";
import { writeFileAtomically } from "./write-file.ts";

const chunkBytes = 16 * 1024 * 1024;

/**
 * Replaces the file by one with other names. A file without a name to change is not written.
 *
 * @returns whether a name changed
 * @throws WeightsError for a damaged file, or if two tensors would have the same name; the file is then unchanged.
 */
export async function renameTensors(path: string, rename: (name: string) => string): Promise<boolean> {
  const file = new WeightFile(path);
  try {
    readSafetensorsHeader(file); // validates the header that is parsed again below
    const prefix = new Uint8Array(8);
    file.read(prefix, 0);
    const raw = new Uint8Array(Number(new DataView(prefix.buffer).getBigUint64(0, true)));
    file.read(raw, 8);
    const entries = Object.entries(JSON.parse(new TextDecoder().decode(raw)) as Record<string, unknown>);
    const renamed = new Map<string, unknown>();
    let changed = false;
    for (const [name, entry] of entries) {
      const next = name === "__metadata__" ? name : rename(name);
      changed ||= next !== name;
      if (renamed.has(next)) {
        const message = `${path}: two tensors would have the name ${next}`;
        throw new WeightsError(message, { code: "stray_tensor", file: path, tensor: name });
      }
      renamed.set(next, entry);
    }
    if (!changed) return false;
    const header = frameHeader(renamed);
    await writeFileAtomically(path, async (append) => {
      await append(header);
      for (let at = 8 + raw.length; at < file.size; at += chunkBytes) {
        const chunk = new Uint8Array(Math.min(chunkBytes, file.size - at));
        file.read(chunk, at);
        await append(chunk);
      }
    });
    return true;
  } finally {
    file.close();
  }
}
