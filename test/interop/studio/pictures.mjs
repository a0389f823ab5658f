// The four pictures of docs/studio.md.
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../../../docs/pictures/", import.meta.url));
const wide = { width: 1280, height: 800 };
const narrow = { width: 390, height: 780 };

export async function takePictures({ browser, server, alpha, beta, saved }) {
  const page = await browser.open();
  const take = async (name) => {
    await page.waitForTimeout(300); // transitions of the page
    await page.screenshot({ path: `${folder}studio-${name}.jpg`, type: "jpeg", quality: 45 });
  };
  const show = async (place, viewport, colorScheme) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
    await page.goto(`${server.url}/#${place}`);
  };
  await page.goto(`${server.url}/`);
  await page.getByLabel("Key").fill("tml-local");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Runs" }).waitFor();

  await show("/runs", narrow, "light");
  await page.getByLabel("Search runs").fill("tinklet");
  await page.getByTestId("runs").waitFor();
  await take("runs-narrow-light");

  await show(`/runs/${alpha.id}?compare=${beta.id}`, wide, "light");
  await page.getByTestId("charts").waitFor();
  await take("run-wide-light");

  await show("/runs", wide, "light");
  await page.getByLabel("Search runs").fill("");
  await page.getByRole("link", { name: "runs/sums" }).click();
  await page.getByTestId("rollout-count").getByText(/96/).waitFor();
  await page.locator(".samples summary").first().click();
  await page.getByRole("button", { name: "Compare group 0" }).click();
  await page.getByTestId("group").waitFor();
  await page.evaluate(() => document.querySelector(".rollouts")?.scrollIntoView({ block: "start" }));
  await take("rollouts-wide-light");

  await show(
    `/playground?model=${encodeURIComponent("tinklet/base")}&model=${encodeURIComponent(saved)}`,
    wide,
    "dark",
  );
  await page.getByLabel("Message", { exact: true }).fill("What does a farmer do?");
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".answer[aria-busy=false]").length >= 2);
  await page.evaluate(() => scrollTo(0, 0));
  await take("playground-wide-dark");
  await page.context().close();
}
