"""Masking of secrets: they are registered once and masked in everything that leaves the process."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

MASK = "***"
MIN_SECRET_CHARACTERS = 4  # masking a shorter value would garble every text and protect nothing

_spellings: set[str] = set()
_pattern: re.Pattern[str] | None = None


def register_secret(value: str) -> None:
    """Mask this value from now on, including its forms in URLs and JSON."""
    global _pattern  # one set of secrets per process, because it applies to all output
    if len(value) < MIN_SECRET_CHARACTERS:
        return
    _spellings.update(
        {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
    )
    # Longest first, so that a secret that contains another one is masked completely.
    _pattern = re.compile("|".join(re.escape(text) for text in sorted(_spellings, key=len, reverse=True)))


def forget_secrets() -> None:
    """Forget all secrets (for tests)."""
    global _pattern
    _spellings.clear()
    _pattern = None


def redact(text: str) -> str:
    """Return the text with every registered secret masked."""
    return _pattern.sub(MASK, text) if _pattern else text


def redact_tree(value: object) -> object:
    """Return the value as plain JSON values, with every registered secret masked."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return redact(value)
        case Mapping():
            return {redact(str(key)): redact_tree(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [redact_tree(item) for item in value]
        case _:
            return redact(str(value))
