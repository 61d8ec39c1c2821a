"""Ids of parametrised tests for values that pytest numbers: `Fault 422`, not `fault0`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence, Set
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from uuid import UUID

from pydantic import BaseModel

MOST_CHARACTERS = 60
# Modules of types of columns: `decimal(9, 2)`, `int32`. Importing them here would slow every run down.
_TYPES = ("pyiceberg.types", "pyarrow.lib")


def readable_id(value: object) -> str | None:
    """Return the id of a value, the same in every process; None if pytest shall choose it."""
    match value:
        case None | bool() | int() | float() | Enum() | type():
            return None  # pytest shows them
        case str() | bytes() if len(value) <= MOST_CHARACTERS:
            return None  # it numbers longer ones
    text = _described(value)
    if text is None:
        return None
    text = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _described(value: object) -> str | None:
    if type(value).__module__.startswith(_TYPES):
        return str(value)
    match value:
        case Enum():
            return str(value.value)
        case type():
            return value.__name__
        case None | bool() | int() | float() | str() | bytes() | Decimal() | UUID() | PurePath():
            return str(value)
        case dt.date() | dt.time() | dt.timedelta() | dt.tzinfo():
            return str(value)
        case BaseModel():
            given = [
                getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set
            ]
            return _joined([type(value).__name__, *given])
        case BaseException():
            return _joined([type(value).__name__, *value.args])
        case Mapping():
            return _joined([f"{_described(key)}: {_described(one)}" for key, one in value.items()]) or "{}"
        case Set():
            return _joined(sorted(str(_described(one)) for one in value)) or "{}"
        case Sequence():
            return _joined(value) or "[]"
    if is_dataclass(value):
        given = [
            getattr(value, one.name)
            for one in fields(value)
            if one.default is MISSING or getattr(value, one.name) != one.default
        ]
        return _joined([type(value).__name__, *given])
    return None


def _joined(values: Sequence[object]) -> str:
    """What of them can be described."""
    return " ".join(text for one in values if (text := _described(one)))
