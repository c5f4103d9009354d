"""Writes the documents, tables and pictures that are made from code and from measurements.

    python docs/write                    # all that take seconds
    python docs/write architectures      # only these
    python docs/write --check            # write nothing, say which are not current, exit with 1 if there is one

`architectures` and `screenshots` hold what is measured while they are made, so they are written only when they are named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from pages import ROOT

sys.path.append(str(ROOT / "tests"))  # its package `support`

QUICK = (
    "modules",
    "speed",
    "results",
    "reliability",
    "man",
)  # made from the source and from benchmarks/measured: the same on every machine
ON_REQUEST = ("architectures", "screenshots")  # measured while they are made


def contents_of(name: str) -> dict[Path, str]:
    """What the files of this document should hold."""
    files: Callable[[], dict[Path, str]] = import_module(name).files
    return files()


def is_current(path: Path, content: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == content


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/write", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*QUICK, *ON_REQUEST]))
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a document is not current")
    options = parser.parse_args()
    if unknown := set(options.names) - {*QUICK, *ON_REQUEST}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join([*QUICK, *ON_REQUEST])}")
    if options.check and (changing := set(options.names) & {*ON_REQUEST}):
        parser.error(f"cannot be checked, since they hold what was measured while they were made: {', '.join(sorted(changing))}")
    n_stale = 0
    for name in options.names or QUICK:
        stale = {path: content for path, content in contents_of(name).items() if not is_current(path, content)}
        n_stale += len(stale)
        for path, content in stale.items():
            if options.check:
                print(f"{path.relative_to(ROOT)} is not current: python docs/write {name}")
            else:
                path.write_text(content, encoding="utf-8")
                print(path.relative_to(ROOT))
    return 1 if options.check and n_stale else 0


if __name__ == "__main__":
    sys.exit(main())
