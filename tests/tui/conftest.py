"""Makes `relaylite.tui` importable from the source tree, where it lies in `tui/` at top level until the package is built."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "tui"

if importlib.util.find_spec("relaylite.tui") is None:
    import relaylite

    spec = importlib.util.spec_from_file_location("relaylite.tui", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["relaylite.tui"] = relaylite.tui = module
    spec.loader.exec_module(module)
