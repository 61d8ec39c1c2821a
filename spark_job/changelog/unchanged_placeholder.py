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

from spark_job.columns.arrays import Mask


@dataclass(frozen=True, slots=True)
class UnchangedPlaceholder:
    """The placeholder for a value that did not change."""

    text: str

    def find(self, column: pa.ChunkedArray) -> Mask | None:
        """Return which values of a column are placeholders; None if none is."""
        if isinstance(column.type, pa.BaseExtensionType):
            return None
        is_placeholder = np.concatenate(
            [np.zeros(0, np.bool_), *(self._find_in_array(chunk) for chunk in column.chunks if len(chunk))]
        )
        return is_placeholder if is_placeholder.any() else None

    def _find_in_array(self, array: pa.Array) -> Mask:
        array_type = array.type
        if _is_text(array_type) or _is_binary(array_type):
            return self._find_equal(array)
        if pa.types.is_list(array_type) or pa.types.is_large_list(array_type) or pa.types.is_map(array_type):
            return self._find_nested(array)
        return np.zeros(len(array), dtype=np.bool_)

    def _find_equal(self, array: pa.Array) -> Mask:
        placeholders = pa.array(self._texts if _is_text(array.type) else [self.text.encode()], array.type)
        is_equal: Mask = pc.is_in(array, value_set=placeholders).to_numpy(zero_copy_only=False)
        return is_equal

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

    def _find_nested(self, array: pa.Array) -> Mask:
        is_map = pa.types.is_map(array.type)
        element_type = array.type.item_type if is_map else array.type.value_type
        has_one_element = _is_text(element_type) or _is_binary(element_type)
        is_number = pa.types.is_integer(element_type) or pa.types.is_floating(element_type)
        if not has_one_element and (is_map or not is_number):
            return np.zeros(len(array), dtype=np.bool_)
        raw = np.frombuffer(self.text.encode(), dtype=np.uint8)
        length = 1 if has_one_element else len(raw)
        lengths = np.diff(array.offsets.to_numpy())
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        is_placeholder: Mask = (lengths == length) & valid
        indices = np.flatnonzero(is_placeholder)
        if not len(indices):
            return is_placeholder
        candidates = array.take(pa.array(indices))
        if is_map:
            is_equal = self._find_equal_elements(candidates.keys) & self._find_equal_elements(
                candidates.items
            )
        elif has_one_element:
            is_equal = self._find_equal_elements(candidates.flatten())
        else:
            numbers = candidates.flatten().cast(pa.float64()).fill_null(-1).to_numpy(zero_copy_only=False)
            is_equal = (numbers.reshape(-1, length) == raw).all(axis=1)
        is_placeholder[indices] = is_equal
        return is_placeholder

    def _find_equal_elements(self, array: pa.Array) -> Mask:
        if not (_is_text(array.type) or _is_binary(array.type)):
            return np.zeros(len(array), dtype=np.bool_)
        return self._find_equal(array)


def _is_text(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type)
    )


def _is_binary(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_binary_view(arrow_type)
    )


def _name_uuid(raw: bytes) -> UUID:
    """Return the placeholder in lists of uuids: Java's UUID.nameUUIDFromBytes."""
    return UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)


def placeholder_columns(schema: Schema, except_ids: Collection[int]) -> tuple[str, ...]:
    """Return the columns of a table that may contain a placeholder, except those in `except_ids`."""
    return tuple(
        field.name
        for field in schema.fields
        if field.field_id not in except_ids and _can_contain_placeholder(field.field_type)
    )


def _can_contain_placeholder(field_type: IcebergType) -> bool:
    match field_type:
        case StringType() | BinaryType():
            return True
        case ListType():
            return isinstance(
                field_type.element_type,
                StringType | BinaryType | IntegerType | LongType | FloatType | DoubleType,
            )
        case MapType():
            return isinstance(field_type.key_type, StringType) and isinstance(
                field_type.value_type, StringType
            )
        case _:
            return False
