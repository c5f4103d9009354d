"""The errors that relaylite raises on purpose.

Each message is one line that says what is wrong and what to do next. The CLI prints it on stderr and
exits with `exit_code`; the terminal UI shows it as a notice. Anything else that escapes is a defect.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a message about an unknown name: the closest known ones, whatever their case; `otherwise` if none is close."""
    by_folded = {each.casefold(): each for each in known}
    folded = name.casefold()
    close = [folded] if folded in by_folded else difflib.get_close_matches(folded, by_folded, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(by_folded[each] for each in close)}?" if close else otherwise


class RelayliteError(Exception):
    """A run failed. Base of all errors below."""

    exit_code = 1


class UsageError(RelayliteError):
    """The request cannot be carried out as given: an option, a file, a name, an empty task."""

    exit_code = 2


class ModelError(RelayliteError):
    """A model cannot be fetched, or cannot be loaded with these settings."""


class ModelFileError(ModelError):
    """The file that was named as a model is missing, damaged, or no model that can be used."""

    exit_code = 2


class ContextOverflow(UsageError):
    """A prompt, or prompt and answer together, do not fit the context."""


class EngineBusy(RelayliteError):
    """A second thread asked for an engine that is generating."""


class EngineClosed(RelayliteError):
    """The engine was closed before or during the call."""


class NativeError(RelayliteError):
    """The native extension refused a call or failed; the message holds its text."""


class Cancelled(RelayliteError):
    """The user stopped the run; what was written until then is kept."""

    exit_code = 130
