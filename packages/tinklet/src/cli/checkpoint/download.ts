/** Downloads a URL to a file and shows the progress. */
import { type DownloadProgress, downloadFile as fetchFile } from "@tinklet/sdk/files";
import type { Context } from "../context.ts";
import { replaceFile } from "../files.ts";
import { formatDuration, formatSize } from "../output/format.ts";

/** Smaller downloads show no progress: they end at once, and their rate means nothing. */
const shownBytes = 1024 ** 2;

/** Returns a listener that shows the progress of a download. */
export function showProgress({ output }: Pick<Context, "output">): (progress: DownloadProgress) => void {
  let startMs = performance.now();
  let current: string | undefined;
  return ({ file, receivedBytes: received, totalBytes: total }) => {
    if (file !== current) [current, startMs] = [file, performance.now()];
    const seconds = (performance.now() - startMs) / 1000;
    if ((total ?? received) < shownBytes) return;
    const left =
      total === undefined
        ? ""
        : ` of ${formatSize(total)}, ${formatDuration(((total - received) * seconds) / received)} left`;
    const speed = formatSize(received / Math.max(seconds, 0.001));
    output.progress(`Downloading ${file}: ${formatSize(received)}${left}, ${speed}/s`);
  };
}

/** Downloads a file atomically: an existing file stays when the download fails. @returns the number of bytes */
export async function downloadFile(url: string, file: string, what: string, context: Context): Promise<number> {
  const { signal, fetch } = context;
  const fetching = { signal, fetch, onProgress: showProgress(context) };
  const bytes = await replaceFile(file, (scratch) => fetchFile(url, scratch, what, fetching));
  context.output.endProgress();
  return bytes;
}
