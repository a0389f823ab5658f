/** Checkpoints: what was saved comes back exactly, never changes, and lives as long as it was told to. */
import { type AdamParamsInput, APIStatusError, type Datum, RequestFailedError, type TrainingClient } from "tinklet";
import { downloadAdapter, readTar, select } from "../archive.ts";
import { group } from "../case.ts";
import { allClose, equal, fail, holds, largestDifference, text } from "../checks.ts";
import { type Context, prompt } from "../context.ts";
import { datumOf, lesson, otherLesson, score } from "../data.ts";
import { described } from "../http.ts";

const a = [datumOf(lesson)];
const b = [datumOf(otherLesson)];

async function steps(
  trainer: TrainingClient,
  params: AdamParamsInput,
  ...batches: (readonly Datum[])[]
): Promise<void> {
  for (const batch of batches) await trainer.step(batch as never, "cross_entropy", params);
}

/** A model with three steps behind it, so that its moments matter. */
async function trained(context: Context, options: object = {}) {
  const trainer = await context.trainer(options);
  const learningRate = await context.measures.rate(context);
  await steps(trainer, { learningRate }, a, a, b);
  return { trainer, learningRate };
}

/** What a sampler thinks of the lesson. */
async function samplerScore(context: Context, path: string): Promise<number[]> {
  const sampler = await context.service.createSamplingClient({ modelPath: path });
  return (await sampler.computeLogprobs(prompt(lesson))).slice(1).map((value) => value ?? Number.NaN);
}

/** The route of a checkpoint. */
function route(path: string): string {
  const [run, kind, name] = path.replace("tinker://", "").split("/");
  return `training_runs/${run}/checkpoints/${kind}/${name}`;
}

// biome-ignore lint/suspicious/noExplicitAny: answers of any server
async function listed(context: Context, modelId: string): Promise<any[]> {
  return (await context.http.ok("GET", `training_runs/${modelId}/checkpoints`)).json?.checkpoints ?? [];
}

async function entry(context: Context, path: string) {
  const all = await listed(context, path.replace("tinker://", "").split("/")[0]!);
  return all.find(({ tinker_path }) => tinker_path === path) ?? fail("checkpoints of the run", path, all);
}

export const checkpoints = group("checkpoints", "what was saved comes back exactly, and never changes", [
  [
    "state-path",
    "paths are parsed, stored and shared",
    "save_state answers tinker://<run>/weights/<name>",
    async (context) => {
      const trainer = await context.trainer();
      const name = context.uniqueName("path");
      equal((await trainer.saveState(name)).path, `tinker://${trainer.modelId}/weights/${name}`, "path");
    },
  ],
  [
    "sampler-path",
    "paths are parsed, stored and shared; SDKs refuse one without its kind",
    "save_weights_for_sampler answers tinker://<run>/sampler_weights/<name>",
    async (context) => {
      const trainer = await context.trainer();
      const name = context.uniqueName("path");
      equal(
        (await trainer.saveWeightsForSampler(name)).path,
        `tinker://${trainer.modelId}/sampler_weights/${name}`,
        "path",
      );
    },
  ],
  [
    "exact-resume",
    "a resumed run must be the run, not something like it",
    "weights, moments and step come back: the next step is the one that would have been",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveState(context.uniqueName("resume"));
      await steps(trainer, { learningRate }, b, a);
      const again = context.owned(await context.service.createTrainingClientFromStateWithOptimizer(path));
      await steps(again, { learningRate }, b, a);
      const tolerance = await context.measures.tolerance(context);
      allClose(await score(again), await score(trainer), tolerance, "log-probs, two steps after resuming");
    },
  ],
  [
    "resume-without-optimizer",
    "fine-tuning on from a checkpoint wants the weights, not the momentum",
    "load_state brings the weights; moments and step start afresh",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveState(context.uniqueName("weights-only"));
      const saved = await score(trainer);
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      const tolerance = await context.measures.tolerance(context);
      allClose(await score(again), saved, tolerance, "log-probs of the loaded weights");
      await steps(trainer, { learningRate }, b);
      await steps(again, { learningRate }, b);
      const apart = largestDifference(await score(again), await score(trainer));
      holds(
        apart > 10 * tolerance,
        "a step after loading without the optimizer",
        "another than with it",
        `within ${apart}`,
      );
    },
  ],
  [
    "rewind",
    "when a run diverges one goes back",
    "load_state into a live model brings the saved weights back",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveState(context.uniqueName("rewind"));
      const saved = await score(trainer);
      await steps(trainer, { learningRate }, b, b);
      await trainer.loadStateWithOptimizer(path);
      allClose(await score(trainer), saved, await context.measures.tolerance(context), "log-probs after going back");
    },
  ],
  [
    "state-does-not-move",
    "a checkpoint that follows the training is no checkpoint",
    "a saved state is as it was, however much is trained afterwards",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const saved = await score(trainer);
      const { path } = await trainer.saveState(context.uniqueName("still"));
      await steps(trainer, { learningRate }, b, b, b);
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      allClose(await score(again), saved, await context.measures.tolerance(context), "log-probs of the saved state");
    },
  ],
  [
    "snapshot-does-not-move",
    "evaluations of a checkpoint must not depend on when they run",
    "sampler weights are a snapshot: training on does not change them",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("snapshot"));
      const before = await samplerScore(context, path);
      await steps(trainer, { learningRate }, b, b, b);
      allClose(
        await samplerScore(context, path),
        before,
        await context.measures.tolerance(context),
        "log-probs of the snapshot",
      );
    },
  ],
  [
    "unnamed-snapshot-does-not-move",
    "on-policy recipes sample from the last save while they train on",
    "save_weights_and_get_sampling_client gives a snapshot too",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const sampler = await trainer.saveWeightsAndGetSamplingClient();
      const look = async () =>
        (await sampler.computeLogprobs(prompt(lesson))).slice(1).map((value) => value ?? Number.NaN);
      const before = await look();
      await steps(trainer, { learningRate }, b, b, b);
      allClose(await look(), before, await context.measures.tolerance(context), "log-probs of the unnamed snapshot");
    },
  ],
  [
    "sampling-does-not-train",
    "evaluating an old checkpoint must not rewind the model in training",
    "sampling from a snapshot leaves the live model alone",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("old"));
      await steps(trainer, { learningRate }, b, b);
      const live = await score(trainer);
      await samplerScore(context, path);
      allClose(await score(trainer), live, await context.measures.tolerance(context), "log-probs of the live model");
    },
  ],
  [
    "two-snapshots",
    "checkpoints are compared side by side",
    "snapshots of different steps stay apart, in whatever order they are used",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const early = await trainer.saveWeightsForSampler(context.uniqueName("early"));
      const first = await samplerScore(context, early.path);
      await steps(trainer, { learningRate }, b, b);
      const late = await trainer.saveWeightsForSampler(context.uniqueName("late"));
      const second = await samplerScore(context, late.path);
      const tolerance = await context.measures.tolerance(context);
      allClose(await samplerScore(context, early.path), first, tolerance, "log-probs of the earlier snapshot");
      holds(largestDifference(first, second) > 10 * tolerance, "two snapshots", "different", "the same");
    },
  ],
  [
    "snapshot-is-the-model",
    "what is sampled must be what was trained",
    "a snapshot's log-probs are the trained model's",
    async (context) => {
      const { trainer } = await trained(context);
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("same"));
      const [sampled, live] = [await samplerScore(context, path), await score(trainer)];
      const mean = sampled.reduce((total, value, i) => total + Math.abs(value - live[i]!), 0) / live.length;
      holds(mean < 0.05, "mean difference between snapshot and model", "below 0.05", mean);
    },
  ],
  [
    "name-taken",
    "a typing error must not destroy a checkpoint",
    "saving under a taken name is refused without overwrite, and the old one stays",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const name = context.uniqueName("taken");
      const { path } = await trainer.saveState(name);
      const saved = await score(trainer);
      await steps(trainer, { learningRate }, b);
      const second = await trainer.saveState(name).then(
        (saved) => fail("a second save under a taken name", "a refusal", saved),
        (error: unknown) => error,
      );
      const told = second instanceof RequestFailedError || (second instanceof APIStatusError && second.status < 500);
      holds(told, "a second save under a taken name", "a 4xx, or a future that fails", String(second));
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      allClose(
        await score(again),
        saved,
        await context.measures.tolerance(context),
        "log-probs of the first checkpoint",
      );
    },
  ],
  [
    "overwrite",
    'a rolling "latest" is one name',
    "overwrite true replaces the checkpoint",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const name = context.uniqueName("latest");
      await trainer.saveState(name);
      await steps(trainer, { learningRate }, b);
      const { path } = await trainer.saveState(name, { overwrite: true });
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      const tolerance = await context.measures.tolerance(context);
      allClose(await score(again), await score(trainer), tolerance, "log-probs of the replaced checkpoint");
      const same = (await listed(context, trainer.modelId)).filter(({ tinker_path }) => tinker_path === path);
      equal(same.length, 1, "entries of that name");
    },
  ],
  [
    "both-kinds",
    "recipes save state and sampler weights under one name",
    "the two kinds have names of their own",
    async (context) => {
      const trainer = await context.trainer();
      const name = context.uniqueName("both");
      await trainer.saveState(name);
      await trainer.saveWeightsForSampler(name);
      equal((await listed(context, trainer.modelId)).length, 2, "checkpoints of the run");
    },
  ],
  [
    "ttl-on-save",
    "checkpoints that nobody deletes fill disks",
    "ttl_seconds sets expires_at",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveState(context.uniqueName("ttl"), { ttlSeconds: 3600 });
      const { expires_at: expires } = await entry(context, path);
      const inSeconds = (Date.parse(String(expires)) - Date.now()) / 1000;
      holds(inSeconds > 3000 && inSeconds < 4200, "expires_at", "about an hour from now", expires ?? "nothing");
    },
  ],
  [
    "ttl-change",
    "what turned out well is kept, what did not may go",
    "PUT ttl sets it, null removes it",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveState(context.uniqueName("ttl"));
      await context.http.ok("PUT", `${route(path)}/ttl`, { ttl_seconds: 600 });
      const set = (await entry(context, path)).expires_at;
      const inSeconds = (Date.parse(String(set)) - Date.now()) / 1000;
      holds(
        inSeconds > 400 && inSeconds < 800,
        "expires_at after PUT ttl 600",
        "ten minutes from now",
        set ?? "nothing",
      );
      await context.http.ok("PUT", `${route(path)}/ttl`, { ttl_seconds: null });
      equal((await entry(context, path)).expires_at ?? null, null, "expires_at after PUT ttl null");
    },
  ],
  [
    "ttl-ends",
    "a time to live that never ends is a promise not kept",
    "an expired checkpoint is gone from lists and cannot be loaded",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveState(context.uniqueName("brief"), { ttlSeconds: 1 });
      const gone = async () =>
        !(await listed(context, trainer.modelId)).some(({ tinker_path }) => tinker_path === path);
      // The case's own deadline ends this where a server never forgets.
      for (let i = 0; !(await gone()); i++) {
        if (i > 80) fail("a checkpoint with a ttl of one second", "gone from the list within 20 s", "still there");
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
      await context.http.refused("weights_info of an expired checkpoint", "weights_info", { tinker_path: path });
    },
  ],
  [
    "publish",
    "sharing is a switch, not a copy",
    "publish sets public, unpublish clears it",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("public"));
      await context.http.ok("POST", `${route(path)}/publish`);
      equal((await entry(context, path)).public, true, "public after publish");
      await context.http.ok("DELETE", `${route(path)}/publish`);
      equal((await entry(context, path)).public ?? false, false, "public after unpublish");
    },
  ],
  [
    "delete",
    "deleted means gone",
    "DELETE removes a checkpoint from lists and from use",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveState(context.uniqueName("delete"));
      await context.http.ok("DELETE", route(path));
      const left = (await listed(context, trainer.modelId)).filter(({ tinker_path }) => tinker_path === path);
      equal(left.length, 0, "entries of a deleted checkpoint");
      await context.http.refused("weights_info of a deleted checkpoint", "weights_info", { tinker_path: path });
    },
  ],
  [
    "delete-unknown",
    "scripts that clean up need to tell gone from broken",
    "deleting what does not exist is a 404",
    async (context) => {
      const { modelId } = await context.trainer();
      const answer = await context.http.send("DELETE", `training_runs/${modelId}/checkpoints/weights/none`);
      equal(answer.status, 404, "status");
    },
  ],
  [
    "delete-leaves-others",
    "cleaning up must not take neighbours along",
    "deleting one checkpoint leaves the others usable",
    async (context) => {
      const { trainer } = await trained(context);
      const keep = await trainer.saveState(context.uniqueName("keep"));
      const drop = await trainer.saveState(context.uniqueName("drop"));
      await context.http.ok("DELETE", route(drop.path));
      const again = context.owned(await context.service.createTrainingClientFromState(keep.path));
      const tolerance = await context.measures.tolerance(context);
      allClose(await score(again), await score(trainer), tolerance, "log-probs of the kept checkpoint");
    },
  ],
  [
    "archive-url",
    "weights must be able to leave the server",
    "GET …/archive answers a signed address that works without a key, with its time of expiry",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("archive"));
      const rest = context.service.createRestClient();
      const { url, expires } = await rest.getCheckpointArchiveUrlFromTinkerPath(path);
      holds(expires.getTime() > Date.now(), "expires", "a time to come", expires);
      const answer = await context.http.get(text(url, "url"), { key: null });
      equal(answer.status, 200, "status of the download");
      holds(readTar(answer.bytes).size > 0, "the archive", "files", described(answer));
    },
  ],
  [
    "archive-is-peft",
    "adapters that PEFT and vLLM cannot load are of no use elsewhere",
    "adapter_config.json and adapter_model.safetensors in PEFT's form",
    async (context) => {
      const { trainer } = await trained(context);
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("peft"));
      const { config, tensors } = await downloadAdapter(context, path);
      equal(config.peft_type, "LORA", "peft_type");
      equal(config.r, 8, "r");
      const names = [...tensors.keys()];
      for (const name of names) {
        holds(
          /^base_model\.model\..+\.lora_[AB]\.weight$/.test(name),
          "name of a tensor",
          "base_model.model.….lora_A.weight",
          name,
        );
        const partner = name.replace(/lora_[AB]/, (side) => (side === "lora_A" ? "lora_B" : "lora_A"));
        holds(tensors.has(partner), `partner of ${name}`, partner, "nothing");
      }
      const targets = config.target_modules;
      if (Array.isArray(targets)) {
        const modules = new Set(
          names.map((name) =>
            name
              .replace(/\.lora_[AB]\.weight$/, "")
              .split(".")
              .at(-1),
          ),
        );
        for (const module of modules) holds(targets.includes(module), "target_modules", String(module), targets);
      } else holds(typeof targets === "string", "target_modules", "a list or a pattern", targets);
    },
  ],
  [
    "archive-holds-the-weights",
    "the export must be of the step it names",
    "archives of different steps differ; of the same snapshot they are equal",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const save = async () => (await trainer.saveWeightsForSampler(context.uniqueName("step"))).path;
      const first = await save();
      await steps(trainer, { learningRate }, b);
      const second = await save();
      const numbers = async (path: string) =>
        select(await downloadAdapter(context, path), /lora_B/).flatMap(([, { values }]) => [...values]);
      const [one, two, oneAgain] = [await numbers(first), await numbers(second), await numbers(first)];
      holds(largestDifference(one, two) > 0, "archives of two steps", "different numbers", "the same");
      equal(largestDifference(one, oneAgain), 0, "difference between two downloads of one snapshot");
    },
  ],
  [
    "optimizer-of-sampler-weights",
    "a resume that silently starts a new optimizer is not a resume",
    "sampler weights hold no optimizer: loading them with it is refused",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("no-moments"));
      const modelId = await context.rawModel();
      const body = { model_id: modelId, seq_id: 1, path, optimizer: true, type: "load_weights" };
      await context.http.refused("sampler weights loaded with optimizer", "load_weights", body);
    },
  ],
  [
    "rank-mismatch",
    "weights of another shape must not be loaded in part",
    "a checkpoint of another rank is refused",
    async (context) => {
      const { path } = await (await context.trainer({ rank: 4 })).saveState(context.uniqueName("rank"));
      const modelId = await context.rawModel({ lora: { rank: 8 } });
      const body = { model_id: modelId, seq_id: 1, path, optimizer: false, type: "load_weights" };
      await context.http.refused("a checkpoint of rank 4 into a model of rank 8", "load_weights", body);
    },
  ],
  [
    "flags-come-back",
    "a resumed model must train what the first one did",
    "rank and train_* flags are restored from the checkpoint",
    async (context) => {
      const { trainer, learningRate } = await trained(context, { rank: 4, trainAttn: false });
      const { path } = await trainer.saveState(context.uniqueName("flags"));
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      await steps(again, { learningRate }, a);
      const sampler = await again.saveWeightsForSampler(context.uniqueName("flags"));
      const adapter = await downloadAdapter(context, sampler.path);
      equal(adapter.config.r, 4, "r");
      const attention = select(adapter, /[qkvo]_proj\.lora_B/).some(([, { values }]) => values.some((v) => v !== 0));
      equal(attention, false, "attention trained, though the checkpoint's model had train_attn false");
    },
  ],
  [
    "bad-names",
    "a name is part of a path on somebody's disk",
    "names that leave their folder are refused",
    async (context) => {
      const modelId = await context.rawModel();
      for (const [i, path] of ["../up", "a/b", "", "x".repeat(300)].entries()) {
        const body = { model_id: modelId, seq_id: i + 1, path, type: "save_weights" };
        await context.http.refused(`a checkpoint named ${JSON.stringify(path.slice(0, 20))}`, "save_weights", body);
      }
    },
  ],
  [
    "deleted-sampler",
    "an evaluation of what is gone must end",
    "a sampler over deleted weights is refused, or goes on as it was",
    async (context) => {
      const { trainer } = await trained(context);
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("gone"));
      await context.http.ok("DELETE", route(path));
      const body = {
        session_id: await context.session(),
        sampling_session_seq_id: 0,
        model_path: path,
        type: "create_sampling_session",
      };
      const answer = await context.http.post("create_sampling_session", body);
      holds(answer.status >= 400 && answer.status < 500, "a sampler over deleted weights", "a 4xx", described(answer));
    },
  ],
]);
