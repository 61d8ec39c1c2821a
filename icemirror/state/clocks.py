"""How far a time that another machine wrote is trusted: clocks differ a little, and some are far ahead."""

from __future__ import annotations

SKEW_SECONDS = 60.0
"""By so much clocks may differ without anything coming of it."""


def is_absurd(until: float, now: float, longest_seconds: float) -> bool:
    """No wait of that length can end so late: whoever wrote it has a clock that is ahead."""
    return until > now + longest_seconds + SKEW_SECONDS


def believed(until: float, now: float, longest_seconds: float) -> float:
    """When a wait ends that is never longer than this; now, if the time makes no sense."""
    return now if is_absurd(until, now, longest_seconds) else until
