from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, LongType, StringType, UUIDType

from icemirror.errors import Corrupt
from spark_job.changelog.event_batch import concat_events
from spark_job.changelog.read_events import read_events
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.key_check import KeySources, check_located_keys, choose_sample_rows
from tests.lab.lab import changelog_schema, rows_table, sequence_text
from tests.unit.spark_job.merge.samples import save, shape_of

_CDC = {"cdc_operation": "UPDATE", "sequence_number": sequence_text(1)}
_U = [bytes([number]) * 16 for number in range(6)]
KEYS: dict[str, tuple[tuple[IcebergType, ...], list[tuple[Any, ...]]]] = {
    "long": ((LongType(),), [(5,), (-3,), (9,), (2**62,)]),
    "uuid": ((UUIDType(),), [(_U[3],), (_U[0],), (_U[5],), (_U[1],)]),
    "string": ((StringType(),), [("b",), ("",), ("🎁",), ("a",)]),
    "decimal": (
        (DecimalType(9, 2),),
        [(Decimal("1.50"),), (Decimal(0),), (Decimal("-2.25"),), (Decimal(7),)],
    ),
    "composite": ((LongType(), StringType()), [(1, "2"), (12, ""), (1, "23"), (0, "x")]),
    "composite with uuid": ((UUIDType(), LongType()), [(_U[0], 1), (_U[0], 2), (_U[1], 1), (_U[4], 7)]),
}


def schema_of(kinds: Sequence[IcebergType]) -> Schema:
    names = [f"k{number}" for number in range(len(kinds))]
    return changelog_schema(*zip(names, kinds, strict=True), keys=names)


def key_rows(schema: Schema, keys: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows with these keys, for a changelog file or a data file of the mirror."""
    return rows_table(
        schema, [{**{f"k{number}": value for number, value in enumerate(key)}, **_CDC} for key in keys]
    )


def check(
    io: PyArrowFileIO,
    folder: Path,
    events: Sequence[pa.Table],
    mirror: Sequence[pa.Table],
    positions: Sequence[tuple[int, int]],
    schema: Schema,
    hash_bits: int = 96,
    limit: int | None = None,
) -> None:
    """Check the keys of events against mirror rows at the positions of an index, one for each event."""
    shape = shape_of(schema, hash_bits)
    sources = [save(folder, table) for table in events]
    changes = collapse_changes(
        concat_events([read_events(io, file, number, shape) for number, file in enumerate(sources)])
    )
    starts = np.concatenate([[0], np.cumsum([table.num_rows for table in events])])
    numbers = starts[changes.file] + changes.row
    located = [positions[number] for number in numbers.tolist()]
    key_sources = KeySources(
        io, sources, shape, io, [save(folder, table).path for table in mirror], shape.key_ids
    )
    check_located_keys(
        key_sources,
        changes,
        np.arange(len(changes), dtype=np.intp),
        np.array([file for file, _ in located], np.int32),
        np.array([pos for _, pos in located], np.int64),
        limit,
    )


@pytest.mark.parametrize("name", KEYS)
def test_correct_positions_pass_in_any_order(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    kinds, keys = KEYS[name]
    schema = schema_of(kinds)
    mirror = [key_rows(schema, [keys[2], keys[0]]), key_rows(schema, [keys[3], keys[1]])]
    positions = [(0, 1), (1, 1), (0, 0), (1, 0)]
    check(io, tmp_path, [key_rows(schema, keys[:3]), key_rows(schema, keys[3:])], mirror, positions, schema)


@pytest.mark.parametrize("name", KEYS)
def test_wrong_position_is_corrupt(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    kinds, keys = KEYS[name]
    schema = schema_of(kinds)
    mirror = [key_rows(schema, [keys[2], keys[0]]), key_rows(schema, [keys[3], keys[1]])]
    swapped = [(0, 1), (1, 0), (0, 0), (1, 1)]
    with pytest.raises(
        Corrupt, match=r"row \d does not have the key that the index states; nothing was committed"
    ):
        check(io, tmp_path, [key_rows(schema, keys)], mirror, swapped, schema)


def test_position_beyond_the_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    schema = schema_of([LongType()])
    with pytest.raises(Corrupt, match="was requested"):
        check(io, tmp_path, [key_rows(schema, [(5,)])], [key_rows(schema, [(5,)])], [(0, 1)], schema)


def test_missing_data_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    schema = schema_of([LongType()])
    shape = shape_of(schema)
    source = save(tmp_path, key_rows(schema, [(5,)]))
    key_sources = KeySources(io, [source], shape, io, [str(tmp_path / "gone.parquet")], shape.key_ids)
    changes = read_events(io, source, 0, shape)
    zero = np.zeros(1, np.intp)
    with pytest.raises(Corrupt, match="gone"):
        check_located_keys(key_sources, changes, zero, zero.astype(np.int32), zero.astype(np.int64))


def test_hash_collision_is_corrupt_although_the_codes_are_equal(tmp_path: Path, io: PyArrowFileIO) -> None:
    """With four bits, seventeen keys cannot all have different codes."""
    schema = schema_of([StringType()])
    shape = shape_of(schema, hash_bits=4)
    keys = [f"key {number}" for number in range(17)]
    codes = shape.key_codec.encode([pa.array(keys)])
    assert codes.hi is not None
    seen: dict[int, str] = {}
    pair = next(
        (seen[code], key)
        for code, key in zip(codes.hi.tolist(), keys, strict=True)
        if code in seen or seen.setdefault(code, key) != key
    )
    event, row = pair
    with pytest.raises(Corrupt, match="does not have the key"):
        check(
            io,
            tmp_path,
            [key_rows(schema, [(event,)])],
            [key_rows(schema, [(row,)])],
            [(0, 0)],
            schema,
            hash_bits=4,
        )


def test_check_without_located_keys_passes(io: PyArrowFileIO, tmp_path: Path) -> None:
    schema = schema_of([LongType()])
    shape = shape_of(schema)
    source = save(tmp_path, key_rows(schema, [(5,)]))
    key_sources = KeySources(io, [source], shape, io, [], shape.key_ids)
    changes = read_events(io, source, 0, shape)
    check_located_keys(key_sources, changes, np.empty(0, np.intp), np.array([-2], np.int32), np.array([0]))


def as_type(table: pa.Table, column: str, kind: pa.DataType) -> pa.Table:
    index = table.schema.get_field_index(column)
    values = table[column].combine_chunks()
    stored = values.storage if isinstance(values.type, pa.BaseExtensionType) else values
    return table.set_column(index, table.schema.field(index).with_type(kind), stored.cast(kind))


MIXED: dict[str, tuple[str, pa.DataType]] = {
    "int and long": ("long", pa.int32()),
    "string and large_string": ("string", pa.string()),
    "decimal of another precision": ("decimal", pa.decimal128(30, 2)),
    "uuid with and without its logical type": ("composite with uuid", pa.binary(16)),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("side", ["changelog", "mirror"])
def test_key_stored_in_different_types_is_not_corrupt(
    tmp_path: Path, io: PyArrowFileIO, name: str, side: str
) -> None:
    """Files of different age or writer: int before it was widened, text with or without Arrow's type."""
    kind, other = MIXED[name]
    kinds, keys = KEYS[kind]
    schema = schema_of(kinds)
    small = [(5,), (-3,), (9,), (7,)] if kind == "long" else keys
    usual = [key_rows(schema, small[:2]), key_rows(schema, small[2:])]
    mixed = [usual[0], as_type(usual[1], "k0", other)]
    positions = [(0, 0), (0, 1), (1, 0), (1, 1)]
    events, mirror = (mixed, usual) if side == "changelog" else (usual, mixed)
    check(io, tmp_path, events, mirror, positions, schema)


def test_sample_is_taken_from_one_row_group_near_its_start() -> None:
    starts = np.array([0, 1_000_000, 3_000_000])
    pos = np.sort(np.random.default_rng(1).choice(3_000_000, 3000, replace=False))
    for _ in range(30):
        group, chosen = choose_sample_rows(starts, pos, 32)
        offsets = pos[chosen] - starts[group]
        assert 0 < len(chosen) <= 32
        assert (offsets >= 0).all()
        assert (offsets < np.diff(starts)[group]).all()


def test_every_row_is_eventually_sampled() -> None:
    starts, pos = np.array([0, 100_000, 300_000]), np.array([5, 70_000, 100_001, 299_999])
    seen = {int(index) for _ in range(2000) for index in choose_sample_rows(starts, pos, 1)[1]}
    assert seen == {0, 1, 2, 3}


def test_distant_rows_are_sampled_if_no_row_is_near_the_start() -> None:
    group, chosen = choose_sample_rows(np.array([0, 3_000_000]), np.array([2_000_000, 2_999_999]), 32)
    assert (group, 0 in chosen) == (0, True)


@pytest.mark.parametrize("limit", [None, 2])
def test_sample_detects_wrong_keys_in_any_file(tmp_path: Path, io: PyArrowFileIO, limit: int | None) -> None:
    kinds, keys = KEYS["long"]
    schema = schema_of(kinds)
    mirror = [key_rows(schema, keys[:2]), key_rows(schema, keys[2:])]
    correct, wrong = [(0, 0), (0, 1), (1, 0), (1, 1)], [(0, 1), (0, 0), (1, 1), (1, 0)]
    check(io, tmp_path, [key_rows(schema, keys)], mirror, correct, schema, limit=limit)
    with pytest.raises(Corrupt, match="does not have the key that the index states"):
        check(io, tmp_path, [key_rows(schema, keys)], mirror, wrong, schema, limit=limit)
