# What 0.36.0 brought, with the official SDK; newerProgram of program.mjs is the same with this one.
import asyncio
import datetime
import os
import sys

import numpy as np
import tinker
from tinker import types


async def main(url):
    quiet = {"api_key": "tml-conversation", "base_url": url}
    service = tinker.ServiceClient(user_metadata={"run": "1"}, display_name="a talk", project_id="p1", **quiet)
    base_model = "stub/model"
    trainer = await service.create_lora_training_client_async(
        base_model, rank=8, seed=3, optimizer=types.DimuonOptimizerConfig()
    )
    prompt_span, sampled_span = types.PromptProvenanceSpan, types.SampledProvenanceSpan
    traced = types.Datum(
        model_input=types.ModelInput.from_ints([1, 2, 3]),
        loss_fn_inputs={"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 1.0]},
    ).with_provenance(
        model_input=[prompt_span(sequence_id="s:0", length=2), sampled_span(sequence_id="s:0", length=1)],
        loss_fn_inputs=[prompt_span(sequence_id="s:0", offset=1, length=1), sampled_span(sequence_id="s:0", length=2)],
    )
    await (await trainer.forward_backward_async([traced], "stable_reinforce", {"mode": "text"}))
    await (await trainer.optim_step_async(types.DimuonParams(learning_rate=0.5, grad_clip_norm=1.0)))
    await (await trainer.save_state_async("ck", user_metadata={"a": "b"}))
    await (await trainer.save_weights_for_sampler_async("sw", user_metadata={"c": "d"}))
    await (await trainer.save_weights_external_async("ext", ttl_seconds=3600, age_encryption_recipients=["age1x"]))
    await service.create_lora_training_client_async(base_model, rank=4, seed=1)
    sampler = await service.create_sampling_client_async(base_model=base_model, record_stability_info=True)
    prompt = types.ModelInput.from_ints([1, 2, 3])
    params = types.SamplingParams(max_tokens=4, seed=7, stop=[])
    target = types.TensorData.from_numpy(np.array([[5], [-1]], dtype=np.int64))
    await sampler.sample_async(prompt, 1, params, topk_sample_logprobs=2, target_prompt_logprobs=target)
    await sampler.compute_logprobs_async(prompt, prompt_logprobs_last_n=2)
    other = tinker.SamplingClient.from_sampler_handle(sampler.get_sampler_handle(), api_key="tml-conversation")
    await other.sample_async(prompt, 1, params)
    rest = tinker.RestClient(**quiet)
    path = "tinker://session-1:train:0/weights/ck"
    await rest.copy_weights_async(path, "p2", ttl_seconds=7200, weights_access_token="tml-theirs")
    await asyncio.to_thread(lambda: service.copy_weights(path).result())
    await rest.get_external_weights_urls_async("tinker://session-1:train:0/external_weights/ext")
    active = types.ActiveSessionStatusQuery()
    await rest.search_sessions_async(
        types.SessionSearchRequest(display_name="a talk", user_metadata={"run": "1"}, statuses=[active], limit=3)
    )
    await rest.list_training_runs_async(limit=5, project_id="p1")
    await asyncio.to_thread(lambda: rest.get_weights_info_by_tinker_path(path).result())
    await rest.set_checkpoint_ttl_from_tinker_path_async(path, 60)
    await rest.publish_checkpoint_from_tinker_path_async(path)
    await rest.unpublish_checkpoint_from_tinker_path_async(path)
    admin = tinker.AdminClient(**quiet)
    await admin.get_current_checkpoint_storage_usage_async(project_id="p1")
    await asyncio.to_thread(lambda: admin.get_audit_log("projects", datetime.date(2026, 7, 13)).result())
    await asyncio.to_thread(lambda: service.close("success", "three epochs").result())


asyncio.run(main(sys.argv[1]))
os._exit(0)
