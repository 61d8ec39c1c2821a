"""Suggestions for misspelt names: `; did you mean orders?`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_name(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar candidate, ignoring case; None if none reaches the similarity `cutoff` (0 to 1)."""
    candidate_by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), candidate_by_lower, n=1, cutoff=cutoff)
    return candidate_by_lower[matches[0]] if matches else None


def suggest(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean …?` for the end of a message; empty if no candidate is similar."""
    closest = closest_name(name, candidates, cutoff)
    return "" if closest is None else f"; did you mean {closest}?"
