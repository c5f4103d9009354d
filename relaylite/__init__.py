"""relaylite: chains of local agents on one GGUF model, with the upstream agent's KV cache taken over.

Names below are loaded when they are first used: `import relaylite` costs nothing and loads neither llama.cpp nor Textual. Nor does this
file import what takes time itself: Ctrl-C is heeded only behind it (`__main__.py`).
"""

# ruff: noqa: PTH112, PTH118, PTH120  (pathlib takes time to import)
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing's, without importing it
if TYPE_CHECKING:
    from relaylite.api import Relay as Relay
    from relaylite.chain.agents import Agent as Agent
    from relaylite.chain.attachments import Attachment as Attachment
    from relaylite.chain.attachments import read_attachment as read_attachment
    from relaylite.chain.chain import Chain as Chain
    from relaylite.chain.conversation import Round as Round
    from relaylite.chain.result import ChainResult as ChainResult
    from relaylite.errors import Cancelled as Cancelled
    from relaylite.errors import ContextOverflow as ContextOverflow
    from relaylite.errors import EngineBusy as EngineBusy
    from relaylite.errors import EngineClosed as EngineClosed
    from relaylite.errors import ModelError as ModelError
    from relaylite.errors import NativeError as NativeError
    from relaylite.errors import RelayliteError as RelayliteError
    from relaylite.errors import UsageError as UsageError
    from relaylite.events import Turn as Turn
    from relaylite.metrics import CellMap as CellMap
    from relaylite.metrics import TurnMetrics as TurnMetrics
    from relaylite.reuse.policies import Policy as Policy
    from relaylite.reuse.policies import parse_policy as parse_policy
    from relaylite.sampling import Sampling as Sampling

_HOME = {
    "Agent": "chain.agents",
    "Attachment": "chain.attachments",
    "Cancelled": "errors",
    "CellMap": "metrics",
    "Chain": "chain.chain",
    "ChainResult": "chain.result",
    "ContextOverflow": "errors",
    "EngineBusy": "errors",
    "EngineClosed": "errors",
    "ModelError": "errors",
    "NativeError": "errors",
    "Policy": "reuse.policies",
    "Relay": "api",
    "RelayliteError": "errors",
    "Round": "chain.conversation",
    "Sampling": "sampling",
    "Turn": "events",
    "TurnMetrics": "metrics",
    "UsageError": "errors",
    "parse_policy": "reuse.policies",
    "read_attachment": "chain.attachments",
}
__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("relaylite")
    if name not in _HOME:
        raise AttributeError(f"module 'relaylite' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"relaylite.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def _step_aside(clone: str) -> None:
    """Put the installed package in place of the source folder, which hides it when Python starts in a clone but has no compiled part."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    elsewhere = [folder for folder in sys.path if os.path.realpath(folder or ".") != clone]
    spec = PathFinder.find_spec(__name__, elsewhere)
    if spec is None or spec.loader is None:
        raise ImportError(f"relaylite is not installed in this Python ({sys.executable}); in {clone}: pip install '.[demo]'")
    installed = sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(installed)


_root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if os.path.isdir(os.path.join(_root, "native")) and not any(finder.find_spec(f"{__name__}._native", __path__) for finder in sys.meta_path):
    _step_aside(_root)
