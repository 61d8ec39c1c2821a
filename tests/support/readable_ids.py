"""Readable ids for parametrized values that pytest would number: `Fault 422`, not `fault0`."""

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
# Modules of column types, such as `decimal(9, 2)` and `int32`. Importing them would slow down every run.
_TYPES = ("pyiceberg.types", "pyarrow.lib")


def readable_id(value: object) -> str | None:
    """Return the id of a value, the same in every process; None if pytest chooses it."""
    match value:
        case None | bool() | int() | float() | Enum() | type():
            return None  # pytest shows these values
        case str() | bytes() if len(value) <= MOST_CHARACTERS:
            return None  # pytest numbers only longer ones
    text = _described(value)
    if text is None:
        return None
    text = " ".join("".join(character if character.isprintable() else " " for character in text).split())
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
            return _joined([f"{_described(key)}: {_described(item)}" for key, item in value.items()]) or "{}"
        case Set():
            return _joined(sorted(str(_described(item)) for item in value)) or "{}"
        case Sequence():
            return _joined(value) or "[]"
    if is_dataclass(value):
        given = [
            getattr(value, field.name)
            for field in fields(value)
            if field.default is MISSING or getattr(value, field.name) != field.default
        ]
        return _joined([type(value).__name__, *given])
    return None


def _joined(values: Sequence[object]) -> str:
    """Join the descriptions of these values, without those that have none."""
    return " ".join(text for value in values if (text := _described(value)))
