// The algorithms of our cookbook beside the official ones: the same generated data gives the same datums, weights, advantages, losses and
// optimizer settings. docs/cookbook.md lists what differs and why; each difference that shows in data is checked here as such.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { run } from "../venv.mjs";

/** The official side computes in float32, ours in float64: sums of fewer than 100 terms below 10 agree to 1e-5. */
const tolerance = 1e-5;

/** The path of the first value that differs; undefined where none does. */
function difference(ours, theirs, path = "") {
  if (typeof ours === "number" && typeof theirs === "number")
    return Math.abs(ours - theirs) <= tolerance || (Number.isNaN(ours) && Number.isNaN(theirs)) ? undefined : path;
  if (ours === null || theirs === null || typeof ours !== "object" || typeof theirs !== "object")
    return ours === theirs ? undefined : path;
  const names = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])];
  return names.map((name) => difference(ours[name], theirs[name], `${path}/${name}`)).find((one) => one !== undefined);
}

/** Advantages of sampled tokens alone. */
const sampled = (all) =>
  all.map((one) => ({ ...one, advantages: one.advantages.map((value, at) => (one.mask[at] > 0 ? value : 0)) }));

/**
 * @param {string} python with the official cookbook
 * @param {(ok: boolean, what: string, seen: string) => void} say
 */
export async function compareAlgorithms(python, say) {
  const folder = mkdtempSync(join(tmpdir(), "tinklet-algorithms-"));
  try {
    const [input, output] = [join(folder, "ours.json"), join(folder, "theirs.json")];
    run(process.execPath, [await bundle("test/interop/cookbook/algorithms-main.ts"), input]);
    run(python, [join(root, "test/interop/cookbook/algorithms.py"), input, output]);
    const [given, theirs] = [input, output].map((file) => JSON.parse(readFileSync(file, "utf8")));
    const check = (what, ours, official, count) => {
      const at = difference(ours, official);
      say(
        at === undefined && count > 0,
        `algorithms: ${what}`,
        at === undefined ? `${count} the same` : `differ at ${at}`,
      );
    };
    const ours = (name) => given[name].map((one) => one.ours);

    const kept = given.supervised.filter((one) => one.ours !== null).length;
    check("supervised datums, by reduction and maximum length", ours("supervised"), theirs.supervised, kept);
    check("datums and advantages of rollouts", given.rollouts.ours, theirs.rollouts, theirs.rollouts.length);
    given.kl.forEach((one, at) => {
      const what = `advantages with a KL penalty, ${one.centred ? "centred" : "to a teacher"}, discount ${one.discount}`;
      check(what, one.ours, sampled(theirs.kl[at]), one.ours.length);
    });
    const onPrompts = theirs.kl
      .flat()
      .some(({ advantages, mask }) => advantages.some((a, at) => a !== 0 && mask[at] === 0));
    say(
      onPrompts,
      "algorithms: with a discount the official cookbook gives prompts advantages, too, and ours does not",
      "explained",
    );
    check("DPO: loss and metrics", ours("preference"), theirs.preference, theirs.preference.length);
    check("targets of a teacher", ours("taught"), theirs.taught, theirs.taught.length);
    check("mean loss per weighted token", ours("nll"), theirs.nll, theirs.nll.length);
    check("learning-rate schedules", ours("schedules"), theirs.schedules, theirs.schedules.length);
    check("substeps", ours("substeps"), theirs.substeps, theirs.substeps.length);
    const { beta1, beta2, eps } = given.adam;
    for (const [loop, official] of Object.entries(theirs.adam))
      check(`Adam of ${loop}`, { beta1, beta2, eps }, official, 3);
    say(eps === theirs.adam.rl.eps, "algorithms: Adam's epsilon, exactly", String(eps));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
