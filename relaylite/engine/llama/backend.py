"""llama.cpp as a whole: its backends and its log."""

from __future__ import annotations

import ctypes

import llama_cpp as lc

from relaylite.engine.llama import log

_log_callback = lc.llama_log_callback(lambda level, text, _: log.take(level, text))


def start() -> None:
    """Route native logs and initialise the backends; may be called again."""
    lc.llama_log_set(_log_callback, ctypes.c_void_p(0))
    lc.llama_backend_init()
