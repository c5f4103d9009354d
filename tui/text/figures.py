"""Numbers as people read them in a narrow column."""

from __future__ import annotations


def milliseconds(ms: float) -> str:
    """`0.4 ms`, `112 ms`, `1.8 s`, `125 s`, `12 min`."""
    if ms < 0:
        return f"-{milliseconds(-ms)}"
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 1000:.0f} s" if ms < 600_000 else f"{ms / 60_000:.0f} min"


def count(n: int) -> str:
    return f"{n:,}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def size(n_bytes: int) -> str:
    """`0 B`, `512 MB`, `1.2 GB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= factor:
            value = n_bytes / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{n_bytes} B"


def bar(share: float, width: int) -> str:
    """A bar of at most `width` columns, in eighths; a share above 0 is always seen."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
