"""Random pauses that spread colliding writers."""

from __future__ import annotations

import random


def pause_seconds(attempt: int, first_seconds: float, max_seconds: float) -> float:
    """Return a random time to wait after this attempt (from 0): its upper limit doubles with each attempt."""
    limit = min(first_seconds * 2.0 ** min(attempt, 6), max_seconds)
    return limit * random.random()  # noqa: S311 (not for cryptography)
