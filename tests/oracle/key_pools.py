"""Pools of keys for every kind of key column: edge cases, filled up with ordinary keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icemirror.cli.demo.oracle.canonical import render_rows

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
_DAY_MICROS = 86_400_000_000
_MAX_DECIMAL = Decimal("9" * 28 + "." + "9" * 10)

Fill = Callable[[np.random.Generator, int], Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class KeyKind:
    """The key's columns, its edge cases, and a generator of ordinary values (a list for each column)."""

    columns: tuple[tuple[str, IcebergType], ...]
    edges: tuple[tuple[Any, ...], ...]
    fill: Fill


def make_key_pool(kind: str, size: int, random: np.random.Generator) -> pa.Table:
    """Return at most `size` distinct keys in random order, up to a third of them edge cases."""
    key = KEY_KINDS[kind]
    edges = [key.edges[i] for i in random.permutation(len(key.edges))][: max(1, size // 3)]
    filled = key.fill(random, size)
    schema = schema_to_pyarrow(
        Schema(
            *(
                NestedField(i, name, column_type, required=True)
                for i, (name, column_type) in enumerate(key.columns, 1)
            )
        ),
        include_field_ids=False,
    )
    arrays = [
        pa.array([edge[i] for edge in edges] + list(filled[i]), field.type) for i, field in enumerate(schema)
    ]
    pool = pa.Table.from_arrays(arrays, schema=schema)
    first = {rendered: row for row, rendered in reversed(list(enumerate(render_rows(pool, schema))))}
    chosen = random.permutation(sorted(first.values())[:size])
    return pool.take(pa.array(chosen)).combine_chunks()


def _longs(random: np.random.Generator, size: int) -> list[int]:
    """Return numbers, half of them consecutive like a sequence, half of them random."""
    start = int(random.integers(-1000, 1_000_000))
    scattered = random.integers(MIN_LONG, MAX_LONG, size // 2, endpoint=True)
    return [*range(start, start + size - size // 2), *scattered.tolist()]


def _ints(random: np.random.Generator, size: int) -> list[int]:
    return (random.permutation(4 * size)[:size] - size).tolist()  # type: ignore[no-any-return]


def _blobs(random: np.random.Generator, size: int, length: int) -> list[bytes]:
    return [random.bytes(length) for _ in range(size)]


def _texts(random: np.random.Generator, size: int) -> list[str]:
    return [f"{'k' * int(random.integers(0, 9))}{n}" for n in random.permutation(2 * size)[:size].tolist()]


def _timestamps(random: np.random.Generator, size: int) -> list[int]:
    return random.integers(0, 2**50, size).tolist()  # type: ignore[no-any-return]


_TEXT_EDGES = (
    "", " ", "a", "A", "aa", "a ", "é", "e\u0301", "ß", "花子", "🎁", "\u0000", "a\u0000b", "NULL",
    "0", "00", "-0", "\U0010ffff", "\ue000", "/", "'; --", "x" * 5000, "x" * 5000 + "y",
)  # fmt: skip
_LONG_EDGES = (
    MIN_LONG, MIN_LONG + 1, -(2**32), -(2**31) - 1, -(2**31), -256, -1, 0, 1, 255, 2**31 - 1, 2**31, 2**32,
    2**53 + 1, MAX_LONG - 1, MAX_LONG,
)  # fmt: skip
_UUID_EDGES = tuple(
    number.to_bytes(16, "big")
    for number in (0, 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127 - 1, 2**127, 2**128 - 1)
)
_BLOB_EDGES = (b"", b"\x00", b"\x00\x00", b"\xff", b"a", b"a\x00", b"\x80" * 3000)
_DAYS = (-719_162, -1, 0, 11_016, 2_932_896)  # the year 1 to the year 9999
# Microseconds: the year 1, just before 1970, 1970, the end of the year 9999.
_TIMESTAMPS = (-62_135_596_800_000_000, -1, 0, 253_402_300_799_999_999)
_ID = "id"

KEY_KINDS: dict[str, KeyKind] = {
    "int": KeyKind(((_ID, LongType()),), tuple((v,) for v in _LONG_EDGES), lambda r, n: [_longs(r, n)]),
    "int32": KeyKind(
        ((_ID, IntegerType()),),
        tuple((v,) for v in (-(2**31), -1, 0, 1, 2**31 - 1)),
        lambda r, n: [_ints(r, n)],
    ),
    "uuid": KeyKind(((_ID, UUIDType()),), tuple((v,) for v in _UUID_EDGES), lambda r, n: [_blobs(r, n, 16)]),
    "string": KeyKind(((_ID, StringType()),), tuple((v,) for v in _TEXT_EDGES), lambda r, n: [_texts(r, n)]),
    "binary": KeyKind(
        ((_ID, BinaryType()),), tuple((v,) for v in _BLOB_EDGES), lambda r, n: [_blobs(r, n, 7)]
    ),
    "fixed": KeyKind(
        ((_ID, FixedType(9)),),
        ((b"\x00" * 9,), (b"\xff" * 9,), (b"\x00" * 8 + b"\x01",)),
        lambda r, n: [_blobs(r, n, 9)],
    ),
    "date": KeyKind(((_ID, DateType()),), tuple((v,) for v in _DAYS), lambda r, n: [_ints(r, n)]),
    "time": KeyKind(
        ((_ID, TimeType()),),
        ((0,), (1,), (_DAY_MICROS - 1,)),
        lambda r, n: [r.integers(0, _DAY_MICROS, n).tolist()],
    ),
    "timestamp": KeyKind(
        ((_ID, TimestampType()),), tuple((v,) for v in _TIMESTAMPS), lambda r, n: [_timestamps(r, n)]
    ),
    "timestamptz": KeyKind(
        ((_ID, TimestamptzType()),),
        tuple((v,) for v in _TIMESTAMPS),
        lambda r, n: [_timestamps(r, n)],
    ),
    "decimal": KeyKind(
        ((_ID, DecimalType(38, 10)),),
        tuple(
            (v,)
            for v in (
                Decimal(0),
                Decimal("1E-10"),
                Decimal("-1E-10"),
                _MAX_DECIMAL,
                _MAX_DECIMAL.copy_negate(),
            )
        ),
        lambda r, n: [[Decimal(v).scaleb(-4) for v in _ints(r, n)]],
    ),
    "boolean": KeyKind(((_ID, BooleanType()),), ((True,), (False,)), lambda _r, _n: [[]]),
    # Pairs that collide if their parts are merely concatenated.
    "composite": KeyKind(
        (("order_id", LongType()), ("sku", StringType())),
        ((1, "2"), (12, ""), (1, "23"), (12, "3"), (MIN_LONG, ""), (MAX_LONG, "x" * 3000), (0, "\u0000")),
        lambda r, n: [r.integers(-3, max(1, n // 4), n).tolist(), _texts(r, n)],
    ),
    "composite_texts": KeyKind(
        (("a", StringType()), ("b", StringType()), ("c", BinaryType())),
        (("ab", "c", b""), ("a", "bc", b""), ("", "abc", b""), ("", "", b"abc"), ("", "", b"")),
        lambda r, n: [_texts(r, n), _texts(r, n), _blobs(r, n, 2)],
    ),
    "composite_typed": KeyKind(
        (("tenant", UUIDType()), ("since", DateType()), ("open", BooleanType())),
        ((b"\x00" * 16, 0, False), (b"\x00" * 16, 0, True)),
        lambda r, n: [_blobs(r, n, 16), _ints(r, n), r.choice([True, False], n).tolist()],
    ),
}
