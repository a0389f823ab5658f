// The Chromium of this machine.
import { existsSync } from "node:fs";

/** Debian's Chromium, or the one that `CHROMIUM` names; undefined if there is none. */
export const chromiumPath = () => [process.env.CHROMIUM, "/usr/bin/chromium"].find((path) => path && existsSync(path));
