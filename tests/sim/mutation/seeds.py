"""Seeds that found something once: mistakes of the product that were mended, and the planted ones."""

from __future__ import annotations

REGRESSIONS: tuple[int, ...] = ()

# The first seed that finds each planted mistake.
FOUND_BY: dict[str, int] = {}
