/**
 * Runs `TINKER_CREDENTIAL_CMD` in a shell. Its standard output is the credential; its exit code is ignored and standard error is
 * inherited.
 */
import type { Clock } from "@tinklet/wire/clock";
import { TinkerError } from "@tinklet/wire/errors";
import { nodeBuiltin } from "../../node-builtin.ts";
import type { Credentials } from "./auth.ts";
import { tokenClaims } from "./token.ts";

const { exec } = nodeBuiltin<typeof import("node:child_process")>("node:child_process");

/** Timeout of the command. Long, because a command may ask the user to unlock a vault. */
const timeoutMs = 60_000;
/** Maximum age of a credential when it is sent; half of its lifetime if that is shorter. */
const reuseMs = 60_000;

/** The command's credential. Requests share one run of the command for up to a minute. */
export class CommandCredential implements Credentials {
  readonly #command: string;
  readonly #clock: Clock;
  #current: { readonly credential: string; readonly untilMs: number } | undefined;
  #running: Promise<string> | undefined;

  constructor(command: string, clock: Clock) {
    this.#command = command;
    this.#clock = clock;
  }

  token(): string | Promise<string> {
    if (this.#current !== undefined && this.#clock.monotonic() < this.#current.untilMs) return this.#current.credential;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(): Promise<string> {
    const startedAtMs = this.#clock.monotonic();
    const credential = await runCredentialCommand(this.#command, this.#clock);
    const end = tokenClaims(credential)?.["exp"];
    const leftMs = typeof end === "number" ? Math.max(end * 1000 - this.#clock.now(), 0) : Infinity;
    this.#current = { credential, untilMs: startedAtMs + Math.min(reuseMs, leftMs / 2) };
    return credential;
  }
}

/** @throws {@link TinkerError} when the command prints nothing or exceeds the timeout. */
function runCredentialCommand(command: string, clock: Clock): Promise<string> {
  return new Promise((resolve, reject) => {
    const controller = new AbortController();
    const cancel = clock.timer(timeoutMs, () => controller.abort());
    const { signal } = controller;
    exec(command, { encoding: "utf8", windowsHide: true, signal }, (_error, stdout) => {
      cancel();
      const credential = stdout.trim();
      if (credential !== "" && !signal.aborted) return resolve(credential);
      const when = signal.aborted ? ` within ${timeoutMs / 1000} s, and was ended` : "";
      reject(
        new TinkerError(`TINKER_CREDENTIAL_CMD printed no credential${when}.`, {
          code: "credential_command",
          hint: "Run the command in a shell: it must print the key or token on standard output.",
        }),
      );
    });
  });
}
