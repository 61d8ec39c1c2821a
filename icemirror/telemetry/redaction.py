"""Secrets that must never be shown: registered once, masked in everything that leaves the process."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST_SECRET = 4  # masking anything shorter would hide half of every text and protect nothing

_spellings: set[str] = set()
_pattern: re.Pattern[str] | None = None


def register_secret(value: str) -> None:
    """From now on mask this value, also where it stands in an address or inside JSON."""
    global _pattern  # one set of secrets for the process: nothing that it writes may hold one
    if len(value) < SHORTEST_SECRET:
        return
    _spellings.update(
        {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
    )
    # The longest first: a secret that contains another one is masked as a whole.
    _pattern = re.compile("|".join(re.escape(text) for text in sorted(_spellings, key=len, reverse=True)))


def forget_secrets() -> None:
    """Start again with none (tests)."""
    global _pattern
    _spellings.clear()
    _pattern = None


def redact(text: str) -> str:
    """The text with every registered secret masked."""
    return _pattern.sub(MASK, text) if _pattern else text


def redact_tree(value: object) -> object:
    """Plain JSON values out of anything, with every registered secret masked."""
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
