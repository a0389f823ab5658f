// Pictures of every page for the documentation: light and dark, wide and narrow, small enough to be committed.
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
const sizes = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 780 } };

export async function takePictures({ browser, server, alpha, beta, saved }) {
  const page = await browser.open();
  await page.goto(`${server.url}/`);
  const key = page.getByLabel("Key");
  const take = async (name, size, colorScheme) => {
    await page.waitForTimeout(300);
    const path = `${folder}studio-${name}-${size}-${colorScheme}.jpg`;
    await page.screenshot({ path, type: "jpeg", quality: 45 });
  };
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [size, viewport] of Object.entries(sizes)) {
      await page.setViewportSize(viewport);
      await key.waitFor();
      await take("sign-in", size, colorScheme);
    }
  }
  await key.fill("tml-local");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  const places = {
    runs: "/runs",
    run: `/runs/${alpha.id}?compare=${beta.id}`,
    playground: `/playground?model=${encodeURIComponent("tinklet/base")}&model=${encodeURIComponent(saved)}`,
    checkpoints: "/checkpoints",
    server: "/server",
    folder: "folder",
    rollouts: "folder",
  };
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [size, viewport] of Object.entries(sizes)) {
      await page.setViewportSize(viewport);
      for (const [name, place] of Object.entries(places)) {
        await page.goto(`${server.url}/#${place === "folder" ? "/runs" : place}`);
        if (name === "runs") {
          await page.getByLabel("Search runs").fill("tinklet");
          await page.getByTestId("runs").waitFor();
        }
        if (name === "run") await page.getByTestId("charts").waitFor();
        if (place === "folder") {
          await page.getByLabel("Search runs").fill("");
          await page.getByRole("link", { name: "runs/sums" }).click();
          await page.getByTestId("rollout-count").getByText(/96/).waitFor();
        }
        if (name === "rollouts") {
          await page.locator(".samples summary").first().click();
          await page.getByRole("button", { name: "Compare group 0" }).click();
          await page.getByTestId("group").waitFor();
          await page.evaluate(() => document.querySelector(".rollouts")?.scrollIntoView({ block: "start" }));
        }
        if (name === "playground") {
          await page.getByLabel("Message").fill("What does a farmer do?");
          await page.getByRole("button", { name: "Ask" }).click();
          await page.waitForFunction(() => document.querySelectorAll(".answer[aria-busy=false]").length >= 2);
        }
        if (name !== "rollouts") await page.evaluate(() => scrollTo(0, 0));
        await take(name, size, colorScheme);
      }
    }
  }
  await page.context().close();
}
