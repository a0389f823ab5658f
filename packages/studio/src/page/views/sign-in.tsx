/** The sign-in form, for browsers that did not open the printed link. */
import { useState } from "preact/hooks";
import { CallError, post } from "../api.ts";
import { loadSession, session } from "../store.ts";

export function SignIn({ problem: first }: { readonly problem: string | undefined }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(first);
  const needsKey = session.value?.needs_key === true;
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await post("/studio/sign-in", { key });
      setKey("");
      await loadSession();
    } catch (error) {
      setProblem(error instanceof CallError ? error.message : String(error));
    }
  };
  return (
    <main class="sign-in" id="main">
      <h1>Tinklet studio</h1>
      <p>
        {needsKey
          ? "Sign in with your key for this server."
          : "Open the link that the server printed at its start, or sign in with a key: this server accepts any key that starts with tml-."}
      </p>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          Key
          <input
            type="password"
            autoComplete="current-password"
            placeholder="tml-…"
            required
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="main">
          Sign in
        </button>
      </form>
      {problem === undefined ? null : (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <p class="soft">The key is exchanged for a cookie that no script can read.</p>
    </main>
  );
}
