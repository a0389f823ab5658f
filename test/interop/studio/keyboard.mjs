// The tour without a mouse: only Tab, Shift+Tab, Enter, Space, arrows, Escape and typing. What has the focus is found by its role and name,
// as a screen reader would say it.
import assert from "node:assert/strict";

const described = () => {
  const one = document.activeElement;
  const label = one?.labels?.[0]?.textContent ?? "";
  const name = one?.getAttribute("aria-label") || label || one?.textContent || one?.getAttribute("placeholder") || "";
  return `${one?.tagName.toLowerCase()} ${name.replace(/\s+/g, " ").trim().slice(0, 80)}`;
};

export async function keyboardTour({ browser, server, runName, otherName }) {
  const page = await browser.open();
  const press = (key) => page.keyboard.press(key);
  /** Goes on with Tab until something has the focus whose tag and name match. */
  const tabTo = async (wanted, most = 150) => {
    const passed = [];
    for (let i = 0; i < most; i++) {
      await press("Tab");
      const name = await page.evaluate(described);
      if (wanted.test(name)) return;
      passed.push(name);
    }
    throw new Error(`Tab does not reach ${wanted}: ${passed.slice(0, 40).join(", ")}`);
  };
  const heading = (name) => page.getByRole("heading", { name }).first().waitFor();
  await page.goto(`${server.url}/`);
  await page.getByLabel("Key", { exact: true }).waitFor();
  await tabTo(/^input Key/);
  await page.keyboard.type("tml-local");
  await press("Enter");
  await heading("Runs");
  await page.getByTestId("runs").waitFor();
  // two runs selected, then a run, its charts, another one beside it
  await tabTo(/^input Compare /);
  await press("Space");
  await page.getByText("1 run selected").waitFor();
  await tabTo(/^button Clear/);
  await press("Enter");
  await page.evaluate(() => document.activeElement?.blur());
  await tabTo(/^button Skip to the content/);
  await press("Enter");
  await tabTo(/^input Search runs/);
  await page.keyboard.type("pirate");
  await tabTo(new RegExp(`^a ${runName}`));
  await press("Enter");
  await heading(runName);
  await page.getByTestId("charts").waitFor();
  await tabTo(/^summary Compare with other runs/);
  await press("Enter");
  await tabTo(new RegExp(`^input.*${otherName}`));
  await press("Space");
  await page.getByRole("list", { name: "Runs in the charts" }).getByText(otherName).waitFor();
  await tabTo(/^input Smoothing/);
  await press("ArrowRight");
  await tabTo(/^div loss by step/);
  await press("+");
  await page.waitForFunction(() =>
    [...document.querySelectorAll("button")].some((b) => /Show all/.test(b.textContent) && !b.disabled),
  );
  await press("0");
  // a folder's rollouts
  await page.reload();
  await heading(runName);
  await tabTo(/^a Runs$/);
  await press("Enter");
  await heading("Runs");
  await tabTo(/^a runs\/sums/);
  await press("Enter");
  await page.getByTestId("rollout-count").waitFor();
  await tabTo(/^button Reward/);
  await press("Enter");
  await tabTo(/^summary .*group 0/);
  await press("Enter");
  await tabTo(/^button Compare group 0/);
  await press("Enter");
  await page.getByTestId("group").waitFor();
  // an evaluation
  await page.reload();
  await heading("runs/sums");
  await tabTo(/^a Evaluations/);
  await press("Enter");
  await tabTo(/^a capitals/);
  await press("Enter");
  await page.getByTestId("items").waitFor();
  await tabTo(/^input All/);
  await press("ArrowRight");
  await page.getByText("10 of 40").waitFor();
  // an answer
  await page.reload();
  await heading("capitals");
  await tabTo(/^a Playground/);
  await press("Enter");
  await page.getByLabel("Message", { exact: true }).waitFor();
  await tabTo(/^textarea Message/);
  await page.keyboard.type("What is two and two?");
  await press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".answer[aria-busy=false] .token").length > 0);
  // a question that Escape answers with no
  await page.reload();
  await page.getByLabel("Message", { exact: true }).waitFor();
  await tabTo(/^a Checkpoints/);
  await press("Enter");
  await page.getByTestId("checkpoints").waitFor();
  const before = await page.getByTestId("checkpoints").getByRole("row").count();
  await tabTo(/^button More about/);
  await press("Enter");
  await page.getByRole("dialog").waitFor();
  await tabTo(/^button Delete/);
  await press("Enter");
  await page.getByText("Delete this checkpoint?").waitFor();
  await press("Escape");
  await page.getByText("Delete this checkpoint?").waitFor({ state: "detached" });
  assert.match(await page.evaluate(described), /^button Delete/);
  await press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.match(await page.evaluate(described), /^button More about/);
  assert.equal(await page.getByTestId("checkpoints").getByRole("row").count(), before);
  await page.reload();
  await page.getByTestId("checkpoints").waitFor();
  await tabTo(/^a Server/);
  await press("Enter");
  await heading("Models");
  await tabTo(/^select Colours/);
  await press("ArrowDown");
  await tabTo(/^button Sign out/);
  await press("Enter");
  await page.getByLabel("Key", { exact: true }).waitFor();
  await page.context().close();
}
