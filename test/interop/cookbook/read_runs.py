"""Reads run folders with the official cookbook's own readers: `read_runs.py FOLDER` prints what they say as JSON."""

import json
import sys

from tinker_cookbook.checkpoint_utils import get_last_checkpoint
from tinker_cookbook.recipes.chat_sl.sweep import results
from tinker_cookbook.stores.registry import RunRegistry
from tinker_cookbook.stores.storage import LocalStorage

folder = sys.argv[1]
registry = RunRegistry([LocalStorage(folder)])
swept = results.collect(folder)


def told(info):
    store = registry.get_training_store(info.run_id)
    last = get_last_checkpoint(f"{folder}/{info.run_id}")
    iterations = store.list_iterations()
    return {
        "id": info.run_id,
        "type": info.training_type,
        "iterations": info.iteration_count,
        "config": store.read_config(),
        "metrics": store.read_metrics(),
        "checkpoints": [record.to_dict() for record in store.read_checkpoint_records()],
        "last": last and last.to_dict(),
        "spans": [len(record["spans"]) for record in store.read_timing()],
        "rollouts": {each.iteration: store.read_rollouts(each.iteration) for each in iterations},
        "single": {
            each.iteration: store.read_single_rollout(each.iteration, group_idx=0, traj_idx=1) for each in iterations
        },
    }


print(json.dumps({"runs": [told(info) for info in registry.get_runs()], "swept": list(swept["log_path"])}))
