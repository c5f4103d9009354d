"""The one version of llama-cpp-python that relaylite runs with, and the commands that install it."""

from __future__ import annotations

LLAMA_CPP_PYTHON = "0.3.36"  # pyproject.toml pins the same one


def install_command() -> str:
    """Puts it in place of whatever is installed."""
    return f"pip install --force-reinstall llama-cpp-python=={LLAMA_CPP_PYTHON}"


def build_command(flags: str) -> str:
    """Compiles it here with other backends. `flags` are CMake's, such as `-DGGML_CUDA=on`."""
    options = "--no-cache-dir --force-reinstall --no-binary llama-cpp-python"
    return f'CMAKE_ARGS="{flags}" pip install {options} llama-cpp-python=={LLAMA_CPP_PYTHON}'
