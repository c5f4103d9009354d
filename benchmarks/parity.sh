#!/usr/bin/env bash
# Runs the tests of tests/backends on a llama.cpp with RPC, where a worker on this machine holds the layers; or with another backend:
# benchmarks/parity.sh vulkan|cuda|metal. The first run builds llama.cpp.
name="${1:-rpc}"
. "$(dirname "${BASH_SOURCE[0]}")/backend.sh"
exec "$venv/bin/pytest" -rs tests/backends
