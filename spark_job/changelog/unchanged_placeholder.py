"""Placeholders for unchanged values, which Debezium writes for values that PostgreSQL stores out of line (TOAST).

column                    placeholder
text                      the text; or its JSON, Base64 or hexadecimal form, if the connector writes the type like that
binary                    the bytes of the text
list of text or binary    one element with it
list of numbers           its bytes, one number each
map of text               one pair, with it as key and value
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
)

from spark_job.index.keys import Mask


@dataclass(frozen=True, slots=True)
class UnchangedPlaceholder:
    """The placeholder for a value that did not change."""

    text: str

    def find(self, column: pa.ChunkedArray) -> Mask | None:
        """Return which values of a column are placeholders; None if none is."""
        if isinstance(column.type, pa.BaseExtensionType):
            return None
        found = np.concatenate(
            [np.zeros(0, np.bool_), *(self._find_in_array(chunk) for chunk in column.chunks if len(chunk))]
        )
        return found if found.any() else None

    def _find_in_array(self, array: pa.Array) -> Mask:
        kind = array.type
        if _is_text(kind) or _is_binary(kind):
            return self._equal(array)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
            return self._nested(array)
        return np.zeros(len(array), dtype=np.bool_)

    def _equal(self, array: pa.Array) -> Mask:
        known = self._texts if _is_text(array.type) else [self.text.encode()]
        equal: Mask = pc.is_in(array, value_set=pa.array(known, array.type)).to_numpy(zero_copy_only=False)
        return equal

    @property
    def _texts(self) -> list[str]:
        raw = self.text.encode()
        pair = {self.text: self.text}
        return [
            self.text,
            str(_name_uuid(raw)),
            base64.b64encode(raw).decode(),
            raw.hex(),
            json.dumps(pair, ensure_ascii=False),
            json.dumps(pair, ensure_ascii=False, separators=(",", ":")),
        ]

    def _nested(self, array: pa.Array) -> Mask:
        is_map = pa.types.is_map(array.type)
        inner = array.type.item_type if is_map else array.type.value_type
        single = _is_text(inner) or _is_binary(inner)
        if not single and (is_map or not (pa.types.is_integer(inner) or pa.types.is_floating(inner))):
            return np.zeros(len(array), dtype=np.bool_)
        raw = np.frombuffer(self.text.encode(), dtype=np.uint8)
        length = 1 if single else len(raw)
        lengths = np.diff(array.offsets.to_numpy())
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        found: Mask = (lengths == length) & valid
        candidates = np.flatnonzero(found)
        if not len(candidates):
            return found
        taken = array.take(pa.array(candidates))
        if is_map:
            equal = self._equal_elements(taken.keys) & self._equal_elements(taken.items)
        elif single:
            equal = self._equal_elements(taken.flatten())
        else:
            numbers = taken.flatten().cast(pa.float64()).fill_null(-1).to_numpy(zero_copy_only=False)
            equal = (numbers.reshape(-1, length) == raw).all(axis=1)
        found[candidates] = equal
        return found

    def _equal_elements(self, array: pa.Array) -> Mask:
        if not (_is_text(array.type) or _is_binary(array.type)):
            return np.zeros(len(array), dtype=np.bool_)
        return self._equal(array)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _name_uuid(raw: bytes) -> UUID:
    """Return the placeholder in lists of uuids: Java's UUID.nameUUIDFromBytes."""
    return UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)


def placeholder_columns(schema: Schema, except_ids: Collection[int]) -> tuple[str, ...]:
    """Return the columns of a table that may contain a placeholder, except those in `except_ids`."""
    return tuple(
        field.name
        for field in schema.fields
        if field.field_id not in except_ids and _can_contain(field.field_type)
    )


def _can_contain(kind: IcebergType) -> bool:
    match kind:
        case StringType() | BinaryType():
            return True
        case ListType():
            inner = kind.element_type
            return isinstance(
                inner, StringType | BinaryType | IntegerType | LongType | FloatType | DoubleType
            )
        case MapType():
            return isinstance(kind.key_type, StringType) and isinstance(kind.value_type, StringType)
        case _:
            return False
