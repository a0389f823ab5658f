/** Reads a secret: on a terminal with a star per character, otherwise the first line of stdin. */
import { createInterface } from "node:readline/promises";

/** @returns the secret; empty at the end of the input. Rejects with `signal.reason` on Ctrl-C. */
export async function readSecret(prompt: string, signal: AbortSignal): Promise<string> {
  const { stdin, stdout } = process;
  stdout.write(prompt);
  if (stdin.isTTY !== true) {
    const lines = createInterface({ input: stdin, signal });
    for await (const line of lines) {
      lines.close();
      return line;
    }
    signal.throwIfAborted();
    return "";
  }
  stdin.setRawMode(true);
  stdin.setEncoding("utf8");
  try {
    return await new Promise<string>((resolve, reject) => {
      let secret = "";
      const end = (settle: () => void) => {
        stdin.off("data", onData);
        signal.removeEventListener("abort", onAbort);
        settle();
      };
      const onAbort = () => end(() => reject(signal.reason as Error));
      const onData = (entered: string) => {
        if (entered.startsWith("\x1b")) return; // an arrow key
        for (const character of entered) {
          if (character === "\r" || character === "\n" || character === "\x04") return end(() => resolve(secret));
          if (character === "\x03") {
            process.kill(process.pid, "SIGINT"); // in raw mode the terminal does not send the signal
            return;
          }
          if (character === "\b" || character === "\x7f") {
            if (secret !== "") stdout.write("\b \b");
            secret = [...secret].slice(0, -1).join("");
          } else if (character >= " ") {
            secret += character;
            stdout.write("*");
          }
        }
      };
      signal.addEventListener("abort", onAbort);
      stdin.on("data", onData);
      stdin.resume();
      if (signal.aborted) onAbort();
    });
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    stdout.write("\n");
  }
}
