"""`main`: the command `relaylite`, also as `python -m relaylite`. Ctrl-C while it is imported is one line, and no traceback."""

import os
import signal


def main() -> None:
    """Never returns. Most of the start is imports: an exception from a signal handler would end up anywhere in them.

    When the command has ended, Ctrl-C comes too late: its exit code stands.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from relaylite.cli import main as run

    try:
        run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(number: int, _: object) -> None:
    try:
        os.write(2, b"relaylite: stopped\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
