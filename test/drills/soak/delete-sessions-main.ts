/** `delete-sessions-main FOLDER`: deletes every session of a data folder that no server uses, and prints how many there were. */
import { deleteSessions } from "../../../packages/server/src/store/delete-sessions.ts";
import { openStore } from "../../../packages/server/src/store/store.ts";

const store = await openStore({ dataDir: process.argv[2]! });
const ids = store.db.sql.all<{ id: string }>("SELECT id FROM sessions").map(({ id }) => id);
console.log(await deleteSessions(store, ids));
await store.close();
