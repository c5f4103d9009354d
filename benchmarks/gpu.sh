#!/usr/bin/env bash
# What relaying saves on a graphics card: parity first, then the time to the first token of full, naive and relay at 256, 1,024 and 4,096 relayed tokens.
#
#   benchmarks/gpu.sh [cuda|metal|vulkan|rpc|cpu] [OPTIONS OF relaylite bench]
#   benchmarks/gpu.sh cuda --model qwen3-4b
#   benchmarks/gpu.sh rpc                            # a worker on this machine, for trying the script where there is no card
#   benchmarks/gpu.sh rpc --rpc 192.168.1.20:50052
#
# The first run builds llama.cpp (not counted). All else ends in less than 8 minutes (where the system has `timeout`), with the figures
# that there are until then. RELAYED, CHAINS and ANSWER change what is measured; PARITY=no leaves the tests out.
name="${1:-cuda}"
shift || true
layers=-1
if [ "$name" = cpu ]; then
    layers=0
fi
. "$(dirname "${BASH_SOURCE[0]}")/backend.sh"

started=$SECONDS
folder=$(mktemp -d)
worker=""
trap '[ -z "$worker" ] || kill "$worker" 2>/dev/null; rm -rf "$folder"' EXIT

limit 20 "$venv/bin/relaylite" doctor --quick | grep -E "device|GPU|features" || true
if [ "${PARITY:-yes}" = yes ]; then
    limit 170 "$venv/bin/pytest" -q -rs tests/backends/test_rows.py tests/backends/test_sweeps.py && code=0 || code=$?
    case $code in
        0) ;;
        124) echo "parity was not shown in 170 s: benchmarks/parity.sh $name has no limit" >&2 ;;
        *) echo "parity FAILED: figures below are worth nothing" >&2 ;;
    esac
fi

if [ "$name" = rpc ] && [[ " $* " != *" --rpc"* ]]; then
    address=127.0.0.1:$("$python" -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
    "$venv/bin/relaylite" worker --port "${address#*:}" >"$folder/worker.log" 2>&1 &
    worker=$!
    until "$python" -c "from relaylite.machine import workers; workers.ask('$address')" 2>/dev/null; do
        kill -0 "$worker" 2>/dev/null || { cat "$folder/worker.log" >&2; exit 1; }
        sleep 0.2
    done
    set -- --rpc "$address" "$@"
fi
limit 270 "$venv/bin/relaylite" bench --tasks relaylite/data/calibration.jsonl --n "${CHAINS:-3}" --relayed "${RELAYED:-256,1024,4096}" \
    --policies full,naive,relay --max-tokens "${ANSWER:-256}" --no-answers --ctx 8192 --gpu-layers "$layers" --json "$@" >"$folder/figures.json" || true
"$python" benchmarks/short_table.py "$folder/figures.json"
echo "done in $((SECONDS - started)) s" >&2
