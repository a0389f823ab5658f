/** Selects the files of a split from a dataset's repository, by their names alone. */
import { extname } from "node:path";
import { DataError } from "./data-error.ts";

/** The best first: a repository often has the same data in several. */
const formats = [".parquet", ".jsonl", ".csv", ".tsv"];
/** Of data in several files: `train-00000-of-00002.parquet`. */
const shard = /-\d{5}-of-\d{5}$/;

/** `main/train` of `main/train-00000-of-00002.parquet`. */
const partOf = (file: string) => file.slice(0, -extname(file).length).replace(shard, "");
const lastOf = (part: string) => part.slice(part.lastIndexOf("/") + 1);

/**
 * The files of a part, in order.
 *
 * @param wanted - `main/test`, or `test` where only one part ends so. @defaultValue the training split, or all there is
 * @throws {@link DataError} naming the parts that there are, when none or several fit.
 */
export function chosenFiles(files: readonly string[], wanted: string | undefined, dataset: string): readonly string[] {
  const data = files.filter((file) => formats.includes(extname(file).toLowerCase()));
  const parts = [...new Set(data.map(partOf))].sort();
  const fits =
    wanted === undefined
      ? parts.length === 1
        ? parts
        : parts.filter((part) => /^train(ing)?$/.test(lastOf(part)))
      : parts.includes(wanted)
        ? [wanted]
        : parts.filter((part) => lastOf(part) === wanted);
  const [part] = fits;
  if (part === undefined || fits.length > 1) {
    const shown = parts.slice(0, 12).map((one) => `${dataset}:${one}`);
    const problem =
      parts.length === 0
        ? `has no file that can be read (${formats.join(", ")})`
        : `has ${fits.length === 0 ? "no part" : "several parts"} ${wanted === undefined ? "for training" : JSON.stringify(wanted)}`;
    throw new DataError({ file: dataset }, problem, {
      hint: parts.length === 0 ? undefined : `Name one: ${shown.join(", ")}${parts.length > 12 ? ", …" : ""}.`,
    });
  }
  const own = data.filter((file) => partOf(file) === part);
  const format = formats.find((ending) => own.some((file) => file.toLowerCase().endsWith(ending)));
  return own.filter((file) => file.toLowerCase().endsWith(format as string)).sort();
}
