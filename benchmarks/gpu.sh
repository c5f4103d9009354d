#!/usr/bin/env bash
# What relaying saves on a graphics card: parity first, then the time to the first token of full, naive and relay at 256, 1,024 and 4,096 relayed tokens.
#
#   benchmarks/gpu.sh [cuda|metal|vulkan|rpc|cpu] [OPTIONS OF relaylite bench]
#   benchmarks/gpu.sh cuda --model qwen3-4b
#   benchmarks/gpu.sh rpc --rpc 192.168.1.20:50052
#
# The first run builds llama.cpp (not counted); all else takes less than 8 minutes on a card with the default model.
# RELAYED, CHAINS and ANSWER change what is measured.
name="${1:-cuda}"
shift || true
layers=-1
if [ "$name" = cpu ]; then
    layers=0
fi
. "$(dirname "${BASH_SOURCE[0]}")/backend.sh"

started=$SECONDS
"$venv/bin/relaylite" doctor --quick | grep -E "device|GPU|features" || true
limit 180 "$venv/bin/pytest" -rs tests/backends/test_rows.py tests/backends/test_sweeps.py \
    || echo "parity FAILED: figures below are worth nothing" >&2
limit 270 "$venv/bin/relaylite" bench --tasks relaylite/data/calibration.jsonl --n "${CHAINS:-3}" --relayed "${RELAYED:-256,1024,4096}" \
    --policies full,naive,relay --max-tokens "${ANSWER:-256}" --no-answers --ctx 8192 --gpu-layers "$layers" "$@"
echo "done in $((SECONDS - started)) s" >&2
