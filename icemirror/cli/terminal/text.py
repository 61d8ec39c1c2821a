"""Texts that commands share: counts, messages with the table's name, examples in `--help`."""

from __future__ import annotations


def format_count(count: int, noun: str) -> str:
    """Return `1 event` or `2,000 events`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def prefix_table(table: str, message: str) -> str:
    """Return the message prefixed with the table's name, unless it already starts with it."""
    return message if message.startswith(f"{table}: ") else f"{table}: {message}"


def examples(*lines: str) -> str:
    """Return an epilog for click that shows each example on its own line; a test parses them."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def format_duration(seconds: float) -> str:
    """Return a duration with two or three digits: `0.4 s`, `17 min`, `2.1 h`, `12 d`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    for unit_seconds, unit, limit, digits in ((60, "min", 100, 0), (3600, "h", 48, 1)):
        if seconds < limit * unit_seconds:
            return f"{seconds / unit_seconds:.{digits}f} {unit}"
    return f"{seconds / 86_400:.0f} d"
