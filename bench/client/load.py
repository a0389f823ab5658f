# Samples through the official SDK: `python load.py URL CALLS`; prints calls and CPU seconds of this process as JSON.
import asyncio
import json
import os
import resource
import sys

import tinker
from tinker import types

url, calls = sys.argv[1], int(sys.argv[2])
service = tinker.ServiceClient(api_key="tml-bench", base_url=url)
sampler = service.create_sampling_client(base_model="stub/model")
prompt = types.ModelInput.from_ints(list(range(1000, 1064)))
params = types.SamplingParams(max_tokens=32)


async def round_of(n):
    await asyncio.gather(
        *[sampler.sample_async(prompt=prompt, num_samples=1, sampling_params=params) for _ in range(n)]
    )


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main():
    await round_of(200)  # connections, imports
    before = cpu()
    for _ in range(0, calls, 2000):
        await round_of(2000)
    print(json.dumps({"calls": calls, "cpu": cpu() - before}))


asyncio.run(main())
sys.stdout.flush()
os._exit(0)
