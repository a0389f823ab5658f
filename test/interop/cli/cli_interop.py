"""Makes a run with checkpoints for the command lines to look at: cli_interop.py URL BASE_MODEL. Prints their names as JSON."""

import json
import sys

from cli_run import make_run

training, weights, sampler = make_run(*sys.argv[1:3])
print(json.dumps({"run": training.model_id, "weights": weights, "sampler": sampler}))
