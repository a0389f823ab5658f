/** Checkpoints: they restore exactly the saved state, are immutable, and expire after their time to live. */
import {
  type AdamParamsInput,
  APIStatusError,
  type Datum,
  RequestFailedError,
  type TrainingClient,
} from "@tinklet/sdk";
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

/** A model after three steps, so that its optimizer moments affect the next step. */
async function trained(context: Context, options: object = {}) {
  const trainer = await context.trainer(options);
  const learningRate = await context.measures.rate(context);
  await steps(trainer, { learningRate }, a, a, b);
  return { trainer, learningRate };
}

/** A sampler's log-probs of the lesson. */
async function samplerScore(context: Context, path: string): Promise<number[]> {
  const sampler = await context.service.createSamplingClient({ modelPath: path });
  return (await sampler.computeLogprobs(prompt(lesson))).slice(1).map((value) => value ?? Number.NaN);
}

/** The REST route of a checkpoint. */
function route(path: string): string {
  const [run, kind, name] = path.replace("tinker://", "").split("/");
  return `training_runs/${run}/checkpoints/${kind}/${name}`;
}

// biome-ignore lint/suspicious/noExplicitAny: responses of any server
async function listed(context: Context, modelId: string): Promise<any[]> {
  return (await context.http.ok("GET", `training_runs/${modelId}/checkpoints`)).json?.checkpoints ?? [];
}

async function entry(context: Context, path: string) {
  const all = await listed(context, path.replace("tinker://", "").split("/")[0]!);
  return all.find(({ tinker_path }) => tinker_path === path) ?? fail("checkpoints of the run", path, all);
}

export const checkpoints = group("checkpoints", "checkpoints restore exactly the saved state and are immutable", [
  [
    "state-path",
    "clients parse, store and share paths",
    "save_state returns tinker://<run>/weights/<name>",
    async (context) => {
      const trainer = await context.trainer();
      const name = context.uniqueName("path");
      equal((await trainer.saveState(name)).path, `tinker://${trainer.modelId}/weights/${name}`, "path");
    },
  ],
  [
    "sampler-path",
    "clients parse, store and share paths; SDKs reject a path without its kind",
    "save_weights_for_sampler returns tinker://<run>/sampler_weights/<name>",
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
    "a resumed run must give the same results as an uninterrupted run",
    "weights, optimizer moments and step count are restored, so the next step is the same as without the restart",
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
    "fine-tuning from a checkpoint needs its weights but a new optimizer",
    "load_state restores the weights; moments and step count are reset",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveState(context.uniqueName("weights-only"));
      const saved = await score(trainer);
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      const tolerance = await context.measures.tolerance(context);
      allClose(await score(again), saved, tolerance, "log-probs of the loaded weights");
      await steps(trainer, { learningRate }, b);
      await steps(again, { learningRate }, b);
      const difference = largestDifference(await score(again), await score(trainer));
      holds(
        difference > 10 * tolerance,
        "a step after loading without the optimizer",
        "different from a step with the restored optimizer",
        `within ${difference}`,
      );
    },
  ],
  [
    "rewind",
    "users return to an earlier checkpoint after a run diverges",
    "load_state into a live model restores the saved weights",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const { path } = await trainer.saveState(context.uniqueName("rewind"));
      const saved = await score(trainer);
      await steps(trainer, { learningRate }, b, b);
      await trainer.loadStateWithOptimizer(path);
      allClose(
        await score(trainer),
        saved,
        await context.measures.tolerance(context),
        "log-probs after loading the earlier state",
      );
    },
  ],
  [
    "state-does-not-move",
    "a checkpoint must not change when training continues",
    "a saved state is not changed by later training",
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
    "sampler weights are a snapshot that later training does not change",
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
    "on-policy recipes sample from the last save while training continues",
    "save_weights_and_get_sampling_client returns a snapshot",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const sampler = await trainer.saveWeightsAndGetSamplingClient();
      const scoreSnapshot = async () =>
        (await sampler.computeLogprobs(prompt(lesson))).slice(1).map((value) => value ?? Number.NaN);
      const before = await scoreSnapshot();
      await steps(trainer, { learningRate }, b, b, b);
      allClose(
        await scoreSnapshot(),
        before,
        await context.measures.tolerance(context),
        "log-probs of the unnamed snapshot",
      );
    },
  ],
  [
    "sampling-does-not-train",
    "evaluating an old checkpoint must not change the model in training",
    "sampling from a snapshot does not change the live model",
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
    "users compare several checkpoints at the same time",
    "snapshots of different steps remain distinct, in any order of use",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const early = await trainer.saveWeightsForSampler(context.uniqueName("early"));
      const first = await samplerScore(context, early.path);
      await steps(trainer, { learningRate }, b, b);
      const late = await trainer.saveWeightsForSampler(context.uniqueName("late"));
      const second = await samplerScore(context, late.path);
      const tolerance = await context.measures.tolerance(context);
      allClose(await samplerScore(context, early.path), first, tolerance, "log-probs of the earlier snapshot");
      holds(
        largestDifference(first, second) > 10 * tolerance,
        "two snapshots",
        "different log-probs",
        "equal log-probs",
      );
    },
  ],
  [
    "snapshot-is-the-model",
    "samples must come from the trained weights",
    "a snapshot has the same log-probs as the trained model",
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
    "a mistyped name must not destroy a checkpoint",
    "saving under an existing name without overwrite is rejected, and the old checkpoint is unchanged",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const name = context.uniqueName("taken");
      const { path } = await trainer.saveState(name);
      const saved = await score(trainer);
      await steps(trainer, { learningRate }, b);
      const second = await trainer.saveState(name).then(
        (saved) => fail("a second save under an existing name", "a rejection", saved),
        (error: unknown) => error,
      );
      const isRejected =
        second instanceof RequestFailedError || (second instanceof APIStatusError && second.status < 500);
      holds(isRejected, "a second save under an existing name", "a 4xx, or a future that fails", String(second));
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
    'users reuse one name, such as "latest"',
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
      equal(same.length, 1, "checkpoints of that name");
    },
  ],
  [
    "both-kinds",
    "recipes save state and sampler weights under one name",
    "the two kinds have separate namespaces",
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
    "checkpoints that are never deleted fill disks",
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
    "users extend the life of good checkpoints",
    "PUT ttl sets the time to live, null removes it",
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
    "a checkpoint must not outlive its time to live",
    "an expired checkpoint is not listed and cannot be loaded",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveState(context.uniqueName("brief"), { ttlSeconds: 1 });
      const gone = async () =>
        !(await listed(context, trainer.modelId)).some(({ tinker_path }) => tinker_path === path);
      // On a server that never deletes it, the loop ends after 80 attempts or at the case's deadline.
      for (let i = 0; !(await gone()); i++) {
        if (i > 80) fail("a checkpoint with a ttl of one second", "removed from the list within 20 s", "still listed");
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
      await context.http.refused("weights_info of an expired checkpoint", "weights_info", { tinker_path: path });
    },
  ],
  [
    "publish",
    "sharing a checkpoint must not copy it",
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
    "a deleted checkpoint must not be usable",
    "DELETE removes a checkpoint from lists, and it can no longer be loaded",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveState(context.uniqueName("delete"));
      await context.http.ok("DELETE", route(path));
      const left = (await listed(context, trainer.modelId)).filter(({ tinker_path }) => tinker_path === path);
      equal(left.length, 0, "list entries of a deleted checkpoint");
      await context.http.refused("weights_info of a deleted checkpoint", "weights_info", { tinker_path: path });
    },
  ],
  [
    "delete-unknown",
    "cleanup scripts must distinguish a missing checkpoint from a server fault",
    "deleting an unknown checkpoint is a 404",
    async (context) => {
      const { modelId } = await context.trainer();
      const answer = await context.http.send("DELETE", `training_runs/${modelId}/checkpoints/weights/none`);
      equal(answer.status, 404, "status");
    },
  ],
  [
    "delete-leaves-others",
    "deleting a checkpoint must not affect others",
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
    "users must be able to download weights",
    "GET …/archive returns a signed URL that works without a key, and its expiry time",
    async (context) => {
      const trainer = await context.trainer();
      const { path } = await trainer.saveWeightsForSampler(context.uniqueName("archive"));
      const rest = context.service.createRestClient();
      const { url, expires } = await rest.getCheckpointArchiveUrlFromTinkerPath(path);
      holds(expires.getTime() > Date.now(), "expires", "a time in the future", expires);
      const answer = await context.http.get(text(url, "url"), { key: null });
      equal(answer.status, 200, "status of the download");
      holds(readTar(answer.bytes).size > 0, "the archive", "files", described(answer));
    },
  ],
  [
    "archive-is-peft",
    "PEFT and vLLM must be able to load the adapter",
    "the archive contains adapter_config.json and adapter_model.safetensors in PEFT's format",
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
    "an export must contain the weights of its step",
    "archives of different steps differ; archives of the same snapshot are equal",
    async (context) => {
      const { trainer, learningRate } = await trained(context);
      const save = async () => (await trainer.saveWeightsForSampler(context.uniqueName("step"))).path;
      const first = await save();
      await steps(trainer, { learningRate }, b);
      const second = await save();
      const numbers = async (path: string) =>
        select(await downloadAdapter(context, path), /lora_B/).flatMap(([, { values }]) => [...values]);
      const [one, two, oneAgain] = [await numbers(first), await numbers(second), await numbers(first)];
      holds(largestDifference(one, two) > 0, "archives of two steps", "different values", "equal values");
      equal(largestDifference(one, oneAgain), 0, "difference between two downloads of one snapshot");
    },
  ],
  [
    "optimizer-of-sampler-weights",
    "a resume must not silently start with a new optimizer",
    "sampler weights have no optimizer state: loading them with the optimizer is rejected",
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
    "weights of another shape must not be loaded partially",
    "a checkpoint of another rank is rejected",
    async (context) => {
      const { path } = await (await context.trainer({ rank: 4 })).saveState(context.uniqueName("rank"));
      const modelId = await context.rawModel({ lora: { rank: 8 } });
      const body = { model_id: modelId, seq_id: 1, path, optimizer: false, type: "load_weights" };
      await context.http.refused("a checkpoint of rank 4 into a model of rank 8", "load_weights", body);
    },
  ],
  [
    "flags-come-back",
    "a resumed model must train the same modules as the original",
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
      equal(attention, false, "attention trained although the checkpoint has train_attn false");
    },
  ],
  [
    "bad-names",
    "a name may become part of a file path on the server",
    "names that would leave the checkpoint folder are rejected",
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
    "an evaluation of a deleted checkpoint must not hang",
    "a sampler of deleted weights is rejected, or continues with the old weights",
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
      holds(answer.status >= 400 && answer.status < 500, "a sampler of deleted weights", "a 4xx", described(answer));
    },
  ],
]);
