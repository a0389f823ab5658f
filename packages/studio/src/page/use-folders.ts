/** Loads the folders that a view displays, and their new rows while it displays them. */
import type { RunFolderResponse } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "./api.ts";
import { joinMetrics } from "./series.ts";
import { problemText } from "./store.ts";

const everyMs = 2000;

/** Loads folders and polls them every two seconds; also returns the last error. */
export function useFolders(ids: readonly string[]): [ReadonlyMap<string, RunFolderResponse>, string | undefined] {
  const [all, setAll] = useState<ReadonlyMap<string, RunFolderResponse>>(new Map());
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    let isOver = false;
    const known = new Map<string, number>();
    const load = async (folderId: string): Promise<void> => {
      const had = known.get(folderId) ?? 0;
      if (document.hidden && had > 0) return;
      try {
        const later = await call("getRunFolder", { folderId, after: had });
        if (isOver) return;
        const has = later.folder.rows;
        // A restarted run has fewer rows than before.
        const isAnew = has < had;
        known.set(folderId, isAnew ? 0 : has);
        setAll((before) => {
          const old = had === 0 || isAnew ? undefined : before.get(folderId);
          // Keep the same objects if there are no new rows, so that charts are not redrawn.
          const metrics =
            old === undefined
              ? later.metrics
              : has === had
                ? old.metrics
                : joinMetrics(old.metrics, had, later.metrics, has - had);
          return new Map(before).set(folderId, { ...later, metrics });
        });
        setProblem(undefined);
        if (isAnew) await load(folderId);
      } catch (error) {
        if (!isOver) setProblem(problemText(error));
      }
    };
    const loadAll = () => {
      for (const id of ids) void load(id);
    };
    setAll((before) => new Map([...before].filter(([id]) => ids.includes(id))));
    loadAll();
    const timer = setInterval(loadAll, everyMs);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [ids.join(",")]);
  return [all, problem];
}
