# The program whose requests are compared: the official SDK's side. program.mjs is the same program with this SDK.
import asyncio
import os
import sys

import tinker
from tinker import types


def datum(first):
    tokens = [first, first + 1, first + 2]
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens),
        loss_fn_inputs={"target_tokens": [t + 1 for t in tokens], "weights": [1.0, 0.5, 1.0]},
    )


def loss(data, logprobs):
    total = sum((lp * lp).sum() for lp in logprobs)
    return total, {"mine": 7.0}


async def main(url):
    service = tinker.ServiceClient(api_key="tml-conversation", base_url=url, user_metadata={"run": "1"}, project_id="p1")
    trainer = await service.create_lora_training_client_async("stub/model", rank=8, seed=3, user_metadata={"x": "y"})
    for i in range(3):
        batch = [datum(10 * i + n) for n in range(5)]
        forward_backward = await trainer.forward_backward_async(batch, "cross_entropy")
        step = await trainer.optim_step_async(types.AdamParams(learning_rate=1e-4 * (i + 1)))
        await forward_backward
        await step
    await (await trainer.save_state_async("ck", ttl_seconds=60))
    await (await trainer.save_weights_for_sampler_async("sw"))
    sampler = await trainer.save_weights_and_get_sampling_client_async()
    params = types.SamplingParams(max_tokens=4, seed=7, stop=[1, 2], temperature=0.5)
    prompts = [types.ModelInput.from_ints([n, n + 1]) for n in range(50)]
    await asyncio.gather(
        *[sampler.sample_async(prompt=p, num_samples=2, sampling_params=params) for p in prompts]
    )
    await sampler.compute_logprobs_async(prompts[0])
    await (await trainer.forward_backward_custom_async([datum(1), datum(5)], loss))
    await (await trainer.optim_step_async(types.AdamParams()))
    await trainer.get_info_async()
    await service.create_sampling_client_async(base_model="stub/model")
    again = await service.create_training_client_from_state_async("tinker://session-1:train:0/weights/ck")
    await (await again.optim_step_async(types.AdamParams(learning_rate=0.5, grad_clip_norm=1.0)))
    rest = service.create_rest_client()
    await rest.list_training_runs_async(limit=5, project_id="p1")
    await rest.list_user_checkpoints_async(limit=7, offset=1)
    await rest.list_checkpoints_async("session-1:train:0")
    await rest.set_checkpoint_ttl_from_tinker_path_async("tinker://session-1:train:0/weights/ck", None)
    await rest.get_checkpoint_archive_url_from_tinker_path_async("tinker://session-1:train:0/weights/ck")
    await rest.publish_checkpoint_from_tinker_path_async("tinker://session-1:train:0/weights/ck")
    await rest.delete_checkpoint_from_tinker_path_async("tinker://session-1:train:0/weights/ck")
    await rest.list_sessions_async()


asyncio.run(main(sys.argv[1]))
os._exit(0)
