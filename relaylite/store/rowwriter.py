"""Writes row files. The layout of a file is described in `rowfile.py`, which reads them."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relaylite.reuse.rows import Rows, Tokens
from relaylite.store.captured import captured_rows, ranges
from relaylite.store.codec import Codec
from relaylite.store.rowfile import MAGIC, PREAMBLE, VERSION, Header, aligned

SUFFIX = ".rows"


@dataclass(frozen=True, slots=True)
class Draft:
    """Rows about to be written: `rows` behind `lead`, of which the first `n_exact` tokens (from position 0 on) have exact rows.

    `lead` is None for rows that do not start a text: what they rest on is not known.
    """

    rows: Rows
    lead: Tokens | None
    n_exact: int

    @property
    def tokens(self) -> Tokens:
        return self.rows.tokens if self.lead is None else np.concatenate([self.lead, self.rows.tokens])

    @property
    def file_name(self) -> str:
        """The same for the same rows, whoever writes them: model, then content."""
        key = json.dumps([self.rows.layout.fingerprint, self.rows.position, len(self.rows), self.n_exact, self.lead is not None])
        content = hashlib.blake2b(key.encode() + self.tokens.tobytes(), digest_size=16).hexdigest()
        return f"{fingerprint_mark(self.rows.layout.fingerprint)}-{content}{SUFFIX}"


def fingerprint_mark(fingerprint: str) -> str:
    """What the names of a model's files begin with; the header holds the whole fingerprint."""
    return hashlib.blake2b(fingerprint.encode(), digest_size=6).hexdigest()


class RowWriter:
    """The finished bytes of one file; `n_bytes` is known before anything is written."""

    def __init__(self, draft: Draft, codec: Codec) -> None:
        """Raises ValueError if the codec cannot hold such rows."""
        rows, self._contents, places, end = draft.rows, dict(_contents(draft, codec)), {}, 0
        for name, content in self._contents.items():
            is_joined = name[0] in "kv" and name != "k0"
            places[name] = end if is_joined else aligned(end)
            end = places[name] + content.nbytes
        header = Header(
            fingerprint=rows.layout.fingerprint,
            position=rows.position,
            n=len(rows),
            n_exact=draft.n_exact,
            is_rooted=draft.lead is not None,
            origin=rows.origin,
            codec=codec.name,
            captured=ranges(captured_rows(rows)),
            states={name: state.shape[1] for name, state in rows.states.items()},
            sections={name: (places[name], content.nbytes, zlib.crc32(content.data)) for name, content in self._contents.items()},
            section_bytes=end,
        )
        text = json.dumps(asdict(header)).encode()
        self._head = PREAMBLE.pack(MAGIC, VERSION, len(text), zlib.crc32(text)) + text
        self._places = {name: aligned(len(self._head)) + place for name, place in places.items()}
        self.n_bytes = aligned(len(self._head)) + end

    def write(self, path: Path) -> None:
        """Write to `path`, which must not exist, readable by the user only, down to the disk. Raises OSError."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(self._head)
            for name, content in self._contents.items():
                file.write(bytes(self._places[name] - file.tell()))
                file.write(content.data)
            file.flush()
            os.fsync(file.fileno())


def _contents(draft: Draft, codec: Codec) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    rows = draft.rows
    yield "tokens", np.ascontiguousarray(draft.tokens, "<i4")
    for kind, form, layer in (("k", codec.k, rows.k), ("v", codec.v, rows.v)):
        for il in range(rows.layout.n_layer):
            yield f"{kind}{il}", np.ascontiguousarray(form.encode(layer(il)))
    for name, state in rows.states.items():
        yield f"state {name}", np.ascontiguousarray(state)
