#!/usr/bin/env bash
# Builds llama-cpp-python for one backend of ggml and relaylite on it, in a virtual environment of its own, which is kept for the next time.
# Sourced by gpu.sh and parity.sh; expects `name`: cuda, metal, vulkan, rpc, … or cpu for none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=""
if [ "$name" != cpu ]; then
    flags="-DGGML_$(printf %s "$name" | tr '[:lower:]' '[:upper:]')=ON"
fi
version=$(sed -n 's/.*"llama-cpp-python==\([0-9.]*\)".*/\1/p' pyproject.toml | head -1)
venv="${RELAYLITE_VENVS:-${XDG_CACHE_HOME:-$HOME/.cache}/relaylite-backends}/$name"
python="$venv/bin/python"
if [ ! -x "$python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
fi
if ! "$python" -c "import llama_cpp, sys; sys.exit(llama_cpp.__version__ != '$version')" 2>/dev/null; then
    echo "installing llama-cpp-python ${flags:+with $flags }from source: some minutes, or many for a graphics card" >&2
    # pip's cache does not know about flags.
    CMAKE_ARGS="$flags ${CMAKE_ARGS:-}" "$venv/bin/pip" install -q ${flags:+--no-cache-dir --no-binary llama-cpp-python} "llama-cpp-python==$version"
fi
# Without isolation the extension is compiled against the llama.cpp that was just built, and not against another one that pip would fetch for it.
"$venv/bin/pip" install -q 'scikit-build-core>=0.11' 'cffi>=2.0' cmake ninja
"$venv/bin/pip" install -q --no-build-isolation '.[test]'

# limit SECONDS COMMAND…: ends it then, where the system can.
limit() {
    if command -v timeout >/dev/null; then timeout "$@"; else shift && "$@"; fi
}
