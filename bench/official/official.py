"""A run of the official cookbook's own training loops, and what its process used.

`official.py order RECIPE COUNT SEED` prints in which order its data sets give rows: they shuffle by themselves.
`official.py run SPEC OUT` trains as the JSON file SPEC says and writes seconds of the clock and of CPU to OUT; the metrics are in the log
folder. What the loops leave to chance, the seed of the adapter, is set as SPEC says; all else is theirs.
"""

import json
import resource
import sys
import time

began = time.time()


def used():
    """CPU seconds of this process and of those that it started and that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def order(recipe, count, seed):
    import datasets

    rows = datasets.Dataset.from_list([{"row": row} for row in range(count)])
    if recipe == "sft":
        rows = rows.shuffle(seed=seed)  # FromConversationFileBuilder, before it divides
    print(json.dumps(rows.shuffle(seed=0)["row"][:]))  # set_epoch of the first epoch


def with_seed(seed):
    """Gives every new adapter a seed: the loops do not pass one on."""
    import tinker

    for name in ("create_lora_training_client", "create_lora_training_client_async"):
        create = getattr(tinker.ServiceClient, name)
        setattr(tinker.ServiceClient, name, lambda *args, create=create, **given: create(*args, seed=seed, **given))


def sft(spec, shared, common):
    import asyncio

    from tinker_cookbook.supervised import train
    from tinker_cookbook.supervised.data import FromConversationFileBuilder

    data = FromConversationFileBuilder(common_config=common, file_path=spec["data"], shuffle_seed=spec["seed"])
    config = train.Config(**shared, dataset_builder=data, lr_schedule="linear", max_steps=spec["steps"])
    return lambda: asyncio.run(train.main(config))


def dpo(spec, shared, common):
    from tinker_cookbook.preference import train_dpo
    from tinker_cookbook.preference.dpo_datasets import DPODatasetBuilderFromComparisons
    from tinker_cookbook.preference.preference_datasets import ComparisonBuilderFromJsonl

    pairs = ComparisonBuilderFromJsonl(train_path=spec["data"])
    data = DPODatasetBuilderFromComparisons(common_config=common, comparison_builder=pairs)
    config = train_dpo.Config(**shared, dataset_builder=data, dpo_beta=0.1, max_steps=spec["steps"])
    return lambda: train_dpo.main(config)


def problems(spec):
    with open(spec["data"], encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def renderer_of(spec):
    from tinker_cookbook import renderers
    from tinker_cookbook.tokenizer_utils import get_tokenizer

    tokenizer = get_tokenizer(spec["model"])
    return renderers.get_renderer(spec["renderer"], tokenizer=tokenizer), tokenizer


def math_rl(spec, shared, common):
    import asyncio
    from functools import partial

    import chz
    from tinker_cookbook.rl import train
    from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
    from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder

    class SumEnv(ProblemEnv):
        def __init__(self, problem, renderer):
            super().__init__(renderer, format_coef=0.0)
            self.problem = problem

        def get_question(self):
            return self.problem["question"]

        def check_answer(self, sample_str):
            return sample_str.strip() == self.problem["answer"]

        def check_format(self, sample_str):
            return True

        def get_reference_answer(self):
            return self.problem["answer"]

    class Sums(RLDataset):
        def __init__(self):
            self.renderer, _ = renderer_of(spec)
            self.problems = problems(spec)

        def get_batch(self, index):
            first = index * spec["groups"]
            return [
                ProblemGroupBuilder(env_thunk=partial(SumEnv, problem, self.renderer), num_envs=spec["groupSize"])
                for problem in self.problems[first : first + spec["groups"]]
            ]

        def __len__(self):
            return spec["steps"]

    @chz.chz
    class SumsBuilder(RLDatasetBuilder):
        async def __call__(self):
            return Sums(), None

    config = train.Config(**shared, dataset_builder=SumsBuilder(), max_tokens=spec["maxTokens"])
    return lambda: asyncio.run(train.main(config))


def distillation(spec, shared, common):
    import asyncio

    import chz
    from tinker_cookbook.distillation import train_on_policy
    from tinker_cookbook.distillation.datasets import DistillationDatasetConfig, PromptOnlyDataset, TeacherConfig
    from tinker_cookbook.rl.types import RLDatasetBuilder

    @chz.chz
    class PromptsBuilder(RLDatasetBuilder):
        async def __call__(self):
            renderer, tokenizer = renderer_of(spec)
            prompts = [problem["question"] for problem in problems(spec)]
            data = PromptOnlyDataset(prompts, spec["groups"], spec["groupSize"], renderer, tokenizer)
            return data, None

    teacher = TeacherConfig(base_model=spec["model"], load_checkpoint_path=spec["teacher"])
    data = DistillationDatasetConfig(
        dataset_builder=PromptsBuilder(), teacher_config=teacher, groups_per_batch=spec["groups"]
    )
    config = train_on_policy.Config(
        **shared, dataset_configs=[data], max_tokens=spec["maxTokens"], max_steps=spec["steps"]
    )
    return lambda: asyncio.run(train_on_policy.main(config))


def run(spec, out):
    recipes = {"sft": sft, "dpo": dpo, "math-rl": math_rl, "on-policy-distillation": distillation}
    shared = {
        "log_path": spec["folder"],
        "model_name": spec["model"],
        "recipe_name": f"bench_{spec['recipe'].replace('-', '_')}",
        "renderer_name": spec["renderer"],
        "base_url": spec["url"],
        "learning_rate": spec["learningRate"],
        "lora_rank": spec["rank"],
        "save_every": 0,
        "eval_every": 0,
    }
    common = None
    if "batchSize" in spec:
        from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig

        common = ChatDatasetBuilderCommonConfig(
            model_name_for_tokenizer=spec["model"],
            renderer_name=spec["renderer"],
            max_length=None,
            batch_size=spec["batchSize"],
        )
    train = recipes[spec["recipe"]](spec, shared, common)
    with_seed(spec["seed"])
    imported = used()
    since = time.time()
    train()
    figures = {
        "cpuSeconds": used(),
        "importCpuSeconds": imported,
        "seconds": time.time() - began,
        "importSeconds": since - began,
    }
    with open(out, "w", encoding="utf-8") as file:
        json.dump(figures, file)


if sys.argv[1] == "order":
    order(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    with open(sys.argv[2], encoding="utf-8") as spec_file:
        run(json.load(spec_file), sys.argv[3])
