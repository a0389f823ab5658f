// Checks that go on after one fails, and count.
import { isDeepStrictEqual } from "node:util";

export function createChecks() {
  let passed = 0;
  let failed = 0;
  const say = (what, ok, detail = "") => {
    if (ok) passed++;
    else failed++;
    console.log(`${ok ? "ok   " : "FAIL "} ${what}${ok ? "" : `: ${detail}`}`);
  };
  return {
    is: (what, got, wanted) =>
      say(what, isDeepStrictEqual(got, wanted), `${JSON.stringify(got)} is not ${JSON.stringify(wanted)}`),
    holds: (what, condition, detail) => say(what, condition === true, JSON.stringify(detail)),
    /** The class of what a call throws. */
    throws: async (what, call, Class) => {
      try {
        await call();
        say(what, false, "nothing was thrown");
      } catch (error) {
        say(what, error instanceof Class, `${error?.constructor?.name}: ${error?.message}`);
        return error;
      }
    },
    /** A line of another program: `ok …` or `FAIL …`. */
    note: (line) => {
      if (line.startsWith("ok ")) passed++;
      else if (line.startsWith("FAIL")) failed++;
      console.log(line);
    },
    result: () => ({ passed, failed }),
  };
}

/** Waits until the engine has no sequence left; the server's own metrics say so. */
export async function engineIsIdle(url) {
  for (let attempt = 0; attempt < 600; attempt++) {
    const text = await (await fetch(`${url}/metrics`, { headers: { authorization: "Bearer tml-chat" } })).text();
    const active = [...text.matchAll(/^tinklet_engine_active_sequences\{[^}]*\} (\d+)$/gm)].map(([, n]) => Number(n));
    const waiting = [...text.matchAll(/^tinklet_waiting_samples\{[^}]*\} (\d+)$/gm)].map(([, n]) => Number(n));
    if (active.length > 0 && [...active, ...waiting].every((n) => n === 0)) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

export const weather = {
  name: "get_weather",
  description: "How it is outside.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
export const sayCall =
  'SAY <think>\nhm\n</think>\n\nLet me see.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🏔️"}}\n</tool_call>';
