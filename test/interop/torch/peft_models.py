"""Writes the seeded models of the fixtures as folders that both sides open."""

import pathlib
import sys

import record_models

for name in ["llama-tied", "qwen2-untied", "qwen3-tied"]:
    _, peft, _ = record_models.build(name)
    peft.unload().save_pretrained(pathlib.Path(sys.argv[1]) / name)
