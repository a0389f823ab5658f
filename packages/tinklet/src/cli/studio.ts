/** The studio for a server of the command line: there where its package is installed, and told about where it is asked for and missing. */
import type { Studio } from "@tinklet/server";
import { asSaid, optionalPackage } from "./context.ts";

/** @param folders - folders of runs; with any, the package must be there. @throws {@link CliError} */
export async function openStudio(folders: readonly string[]): Promise<Studio | undefined> {
  const load = () => import("@tinklet/studio");
  const found = folders.length > 0 ? await optionalPackage(load, "@tinklet/studio") : await load().catch(isMissing);
  return found?.openStudio({ runs: folders }).catch(async (cause: Error) => {
    throw await asSaid(cause); // a folder that is none
  });
}

function isMissing(cause: NodeJS.ErrnoException): undefined {
  if (cause.code !== "ERR_MODULE_NOT_FOUND") throw cause;
  return undefined;
}
