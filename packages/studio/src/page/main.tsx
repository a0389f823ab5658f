/** The page: signs in, subscribes to events, and shows the view selected by the URL fragment. */
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { post } from "./api.ts";
import { Notice } from "./parts.tsx";
import { parsePlace, place, placeUrl, replacePlace } from "./router.ts";
import { followEvents, isConnected, loadSession, session, sessionProblem } from "./store.ts";
import { forgetTraces } from "./trace-list.ts";
import { Checkpoints } from "./views/checkpoints.tsx";
import { Evaluations, EvaluationView } from "./views/evaluations.tsx";
import { Playground } from "./views/playground.tsx";
import { Run } from "./views/run.tsx";
import { Runs } from "./views/runs.tsx";
import { Server } from "./views/server.tsx";
import { SignIn } from "./views/sign-in.tsx";
import { Trace } from "./views/trace.tsx";
import { Traces } from "./views/traces.tsx";

const signInProblem = signal<string | undefined>(undefined);

/** Exchanges the token of a printed link for a cookie, and removes it from the URL. */
async function useToken(): Promise<void> {
  const { path, query } = parsePlace(location.hash);
  const token = query.get("token");
  if (token === null) return;
  query.delete("token");
  replacePlace(placeUrl(path, Object.fromEntries(query)));
  await loadSession();
  if (session.value?.tenant !== null) return;
  await post("/studio/sign-in", { token }).catch((error: Error) => {
    signInProblem.value = error.message;
  });
}

const themes = ["auto", "light", "dark"] as const;
type Theme = (typeof themes)[number];
const theme = signal<Theme>((localStorage.getItem("tinklet-theme") as Theme | null) ?? "auto");

function applyTheme(next: Theme): void {
  const isDark = next === "dark" || (next === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
  localStorage.setItem("tinklet-theme", next);
  theme.value = next;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(theme.value));

const links = [
  ["runs", "Runs"],
  ["evaluations", "Evaluations"],
  ["traces", "Traces"],
  ["playground", "Playground"],
  ["checkpoints", "Checkpoints"],
  ["server", "Server"],
] as const;

function Nav({ current }: { readonly current: string }) {
  const { has_models: hasModels = false, has_folders: hasFolders = false } = session.value ?? {};
  const shown = links.filter(
    ([path]) => path === "runs" || path === "server" || (path === "evaluations" ? hasFolders : hasModels),
  );
  return (
    <header class="bar-top">
      <a class="brand" href={placeUrl(["runs"])}>
        <img src="/studio/icon.svg" alt="" width="24" height="24" /> Tinklet
      </a>
      <nav aria-label="Views">
        {shown.map(([path, word]) => (
          <a key={path} href={placeUrl([path])} aria-current={path === current ? "page" : undefined}>
            {word}
          </a>
        ))}
      </nav>
      <span class={`live ${isConnected.value ? "live-on" : "live-off"}`} role="status">
        {isConnected.value ? "Live" : "Reconnecting …"}
      </span>
      <select
        aria-label="Colours"
        class="theme"
        value={theme.value}
        onChange={(event) => applyTheme(event.currentTarget.value as Theme)}
      >
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
      <button
        type="button"
        class="quiet"
        title={`Signed in as ${session.value?.tenant}`}
        onClick={() => void post("/studio/sign-out").then(loadSession)}
      >
        Sign out
      </button>
    </header>
  );
}

function View() {
  const [view = "runs", id] = place.value.path;
  if (view === "runs") return id === undefined ? <Runs /> : <Run key={id} id={id} isFolder={false} />;
  if (view === "folders" && id !== undefined) return <Run key={id} id={id} isFolder />;
  if (view === "evaluations") return id === undefined ? <Evaluations /> : <EvaluationView key={id} id={id} />;
  if (view === "traces") return id === undefined ? <Traces /> : <Trace key={id} id={id} />;
  if (view === "playground") return <Playground />;
  if (view === "checkpoints") return <Checkpoints />;
  if (view === "server") return <Server />;
  return (
    <Notice kind="empty" title="Page not found.">
      <p>
        <a href={placeUrl(["runs"])}>All runs</a>
      </p>
    </Notice>
  );
}

function Inside() {
  useEffect(() => followEvents(), [session.value?.tenant]);
  useEffect(() => forgetTraces, [session.value?.tenant]);
  const [view = "runs"] = place.value.path;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <Nav current={view === "folders" ? "runs" : view} />
      <main id="main" tabIndex={-1}>
        <View />
      </main>
    </>
  );
}

function Page() {
  if (session.value === undefined) {
    return sessionProblem.value === undefined ? (
      <Notice kind="loading" title="Connecting …" />
    ) : (
      <Notice kind="problem" title={sessionProblem.value}>
        <button type="button" onClick={() => void loadSession()}>
          Try again
        </button>
      </Notice>
    );
  }
  return session.value.tenant === null ? <SignIn problem={signInProblem.value} /> : <Inside />;
}

applyTheme(theme.value);
await useToken();
await loadSession();
addEventListener("hashchange", () => {
  if (/[?&]token=/.test(location.hash)) void useToken().then(loadSession);
});
render(<Page />, document.getElementById("root")!);
