/** Opens the studio for a server of the command line. */
import type { Studio } from "@tinklet/wire";
import { asSaid } from "./context.ts";

/** @param folders - folders of runs. @throws {@link CliError} for a folder without runs */
export async function openStudio(folders: readonly string[]): Promise<Studio> {
  const studio = await import("@tinklet/studio");
  return studio.openStudio({ runs: folders }).catch(async (cause: Error) => {
    throw await asSaid(cause);
  });
}
