"""Parses the requested key from JSON by the types of the key columns. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField, UUIDType

from spark_job.columns.arrays import Mask
from spark_job.columns.json_values import Json, value_as_json
from spark_job.columns.parse_json_values import find_json_format, to_arrow


class BadKey(ValueError):
    """The text is not a key of this table; the message states why, without the value."""


@dataclass(frozen=True)
class KeyColumn:
    """A key column and its requested value: as Iceberg stores it, and as file readers return it."""

    field: NestedField
    value: Any  # of the column's type; an integer for dates, times and timestamps
    array: pa.Array

    @property
    def as_json(self) -> Json:
        """The value as shown to the user."""
        is_uuid = isinstance(self.field.field_type, UUIDType)
        return str(UUID(bytes=self.value)) if is_uuid else value_as_json(self.array[0])

    def equals(self, column: pa.Array) -> Mask:
        """Return which rows of a column have the value."""
        arrow_type = column.type
        if pa.types.is_temporal(arrow_type):
            column = column.view(pa.int32() if arrow_type.bit_width == 32 else pa.int64())
            is_equal = pc.equal(column, pa.scalar(self.value, column.type))
        else:
            is_equal = pc.equal(column, self.array[0].cast(arrow_type))
        mask: Mask = is_equal.fill_null(False).to_numpy(zero_copy_only=False)
        return mask


@dataclass(frozen=True)
class RequestedKey:
    """The requested key; columns are in the order of the index."""

    columns: tuple[KeyColumn, ...]

    @property
    def arrays(self) -> list[pa.Array]:
        """The key as columns of one row."""
        return [column.array for column in self.columns]

    @property
    def as_json(self) -> dict[str, Json]:
        """The values by column name."""
        return {column.field.name: column.as_json for column in self.columns}

    def find_rows(self, columns: Sequence[pa.Array]) -> Mask:
        """Return which rows of the key columns have this key."""
        mask = np.ones(len(columns[0]), dtype=np.bool_)
        for key_column, column in zip(self.columns, columns, strict=True):
            mask &= key_column.equals(column)
        return mask


def parse_key(text: str, fields: Sequence[NestedField]) -> RequestedKey:
    """Return the key in an object with all key columns, or in a bare value if there is only one column."""
    values = _load_json(text)
    if not isinstance(values, dict):
        if len(fields) > 1:
            raise BadKey(
                f"the key has {len(fields)} columns: give an object of all of them, {_example_json(fields)}"
            )
        values = {fields[0].name: values}
    names = [field.name for field in fields]
    for name in values:
        if name not in names:
            similar_names = difflib.get_close_matches(name, names, n=1)
            hint = (
                f"; did you mean {similar_names[0]}?" if similar_names else f"; the key is {', '.join(names)}"
            )
            raise BadKey(f"{name} is not a key column{hint}")
    missing = [name for name in names if name not in values]
    if missing:
        raise BadKey(f"{', '.join(missing)} is missing: the key is {', '.join(names)}")
    return RequestedKey(tuple(_parse_column(field, values[field.name]) for field in fields))


def _example_json(fields: Sequence[NestedField]) -> str:
    return "{" + ", ".join(f'"{field.name}": …' for field in fields) + "}"


def _load_json(text: str) -> Json:
    def reject_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        if len(dict(pairs)) < len(pairs):
            raise BadKey("a column is given twice")
        return dict(pairs)

    def reject_constant(_: str) -> Json:
        raise BadKey("not valid JSON: NaN and Infinity are not allowed")

    try:
        return json.loads(
            text, parse_float=Decimal, parse_constant=reject_constant, object_pairs_hook=reject_duplicates
        )
    except json.JSONDecodeError as error:
        raise BadKey(
            f"not valid JSON ({error.msg}, character {error.pos + 1}). Quote text twice: --key '\"some text\"'"
        ) from None
    except (RecursionError, ValueError) as error:
        raise error if isinstance(error, BadKey) else BadKey("not valid JSON of a key") from None


def _parse_column(field: NestedField, value: Json) -> KeyColumn:
    if value is None:
        raise BadKey(f"{field.name} is NULL, but a key column is never NULL")
    iceberg_type = field.field_type
    json_format = find_json_format(iceberg_type)
    if json_format is None:
        raise BadKey(f"a column of type {iceberg_type} cannot be a key")
    expected = f"{field.name} is of type {iceberg_type}: expected {json_format.expected}"
    try:
        parsed = json_format.parse(value)
    except TypeError:
        raise BadKey(f"{expected}, found {_TYPE_NAMES.get(type(value), 'something else')}") from None
    except (ValueError, OverflowError, InvalidOperation):
        raise BadKey(expected) from None
    return KeyColumn(field, parsed, to_arrow(parsed, json_format.arrow_type))


_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    Decimal: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
