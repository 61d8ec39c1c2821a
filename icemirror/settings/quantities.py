"""Durations and sizes as text: `500ms 2s 5m 1h 7d`, `64KB 512MB 1GB` (powers of 1,024)."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_SECONDS_BY_UNIT = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_BYTES_BY_UNIT = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def parse_seconds(value: object) -> float:
    """Return seconds from `500ms 2s 5m 1h 7d`; a plain number is seconds."""
    number, unit = _split(value, "a duration", "500ms, 2s, 5m, 1h or 7d")
    if (factor := _SECONDS_BY_UNIT.get(unit or "s")) is None:
        raise ValueError(f"{_quote(value)} is not a duration: the units are ms, s, m, h and d")
    if not math.isfinite(seconds := float(number * factor)):
        raise ValueError(f"{_quote(value)} is too long for a duration")
    return seconds


def parse_bytes(value: object) -> int:
    """Return bytes from `64KB 512MB 1GB`; a plain number is bytes."""
    number, unit = _split(value, "a size", "64KB, 512MB or 1GB")
    if (factor := _BYTES_BY_UNIT.get(unit.upper().replace("IB", "B") or "B")) is None:
        raise ValueError(f"{_quote(value)} is not a size: the units are B, KB, MB, GB and TB")
    size = number * factor
    if size != int(size):
        raise ValueError(f"{_quote(value)} is not a whole number of bytes")
    return int(size)


def format_seconds(seconds: float) -> str:
    """Return the shortest text that `parse_seconds` reads as the same number."""
    exact = Decimal(repr(seconds))
    for unit, factor in reversed(_SECONDS_BY_UNIT.items()):
        if exact and exact % factor == 0:
            return f"{int(exact / factor)}{unit}"
    return f"{exact.normalize():f}s"


def format_bytes(size: int) -> str:
    """Return the shortest text that `parse_bytes` reads as the same number."""
    for unit, factor in reversed(_BYTES_BY_UNIT.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def _split(value: object, quantity: str, examples: str) -> tuple[Decimal, str]:
    """Return number and unit of a quantity, or raise an error that shows how to write one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected {quantity} such as {examples}")  # noqa: TRY004 (pydantic reports ValueError)
    text = f"{Decimal(repr(value)):f}" if isinstance(value, int | float) else value.strip()
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{_quote(value)} is not {quantity}: write it like {examples}")
    return Decimal(match[1]), match[2]


def _quote(value: object) -> str:
    return repr(str(value))


Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    PlainSerializer(format_seconds, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$",
            "minimum": 0,
            "examples": ["500ms", "2s", "5m", "1h", "7d"],
            "x-type": "duration",
        }
    ),
]
"""A duration in seconds, written `500ms 2s 5m 1h 7d`."""

Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    PlainSerializer(format_bytes, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "pattern": r"^\d+(\.\d+)?\s*([KkMmGgTt][Ii]?)?[Bb]?$",
            "minimum": 0,
            "examples": ["64KB", "512MB", "1GB"],
            "x-type": "size",
        }
    ),
]
"""A size in bytes, written `64KB 512MB 1GB`, in powers of 1,024."""
