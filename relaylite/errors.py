"""The errors that relaylite raises on purpose.

Each message is one line that says what is wrong and what to do next. The CLI prints it on stderr and
exits with `exit_code`; the terminal UI shows it as a notice. Anything else that escapes is a defect.
"""


class RelayliteError(Exception):
    """A run failed. Base of all errors below."""

    exit_code = 1


class UsageError(RelayliteError):
    """The request cannot be carried out as given: an option, a file, a name, an empty task."""

    exit_code = 2


class ModelError(RelayliteError):
    """A model file is missing, damaged, or cannot be loaded with these settings."""


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
