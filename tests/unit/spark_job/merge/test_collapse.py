from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, LongType, StringType, UUIDType

from icemirror.errors import Invalid
from spark_job.changelog.changes import Changes, concat_changes, sort_by_position
from spark_job.changelog.read_changes import read_changes
from spark_job.index.keys import Keys
from spark_job.merge.collapse import collapse_changes
from tests.lab.lab import ID_AND_NAME, changelog_schema, events, rows_table, sequence_text
from tests.unit.spark_job.merge.samples import make_changes, save, shape_of, told

TOP = 2**64 - 1


def winners(*stories: tuple[int, str, int]) -> list[tuple[int, str, int, int, int]]:
    return told(collapse_changes(make_changes(stories)))


def test_nothing_collapses_to_nothing() -> None:
    assert not len(collapse_changes(make_changes([])))


def test_the_greatest_sequence_of_each_key_wins() -> None:
    assert winners((2, "U", 5), (1, "U", 3), (2, "U", 7), (1, "U", 4)) == [
        (1, "U", 4, 0, 3),
        (2, "U", 7, 0, 2),
    ]


def test_a_later_delete_wins_over_an_earlier_update() -> None:
    assert winners((1, "U", 3), (1, "D", 4)) == [(1, "D", 4, 0, 1)]


def test_an_insert_after_a_delete_brings_the_row_back() -> None:
    assert winners((1, "D", 4), (1, "U", 5)) == [(1, "U", 5, 0, 1)]


def test_a_late_event_loses_wherever_it_stands() -> None:
    assert winners((1, "U", 9), (1, "D", 4)) == [(1, "U", 9, 0, 0)]
    assert winners((1, "D", 9), (1, "U", 4)) == [(1, "D", 9, 0, 0)]


def test_of_equal_sequences_the_later_row_wins() -> None:
    assert winners((1, "U", 5), (1, "D", 5), (1, "U", 5)) == [(1, "U", 5, 0, 2)]


def test_of_equal_sequences_the_later_file_wins() -> None:
    changes = make_changes([(1, "U", 5), (1, "D", 5), (1, "U", 5)], file=[0, 1, 1])
    assert told(collapse_changes(changes)) == [(1, "U", 5, 1, 1)]


def test_a_greater_sequence_in_an_earlier_file_wins() -> None:
    changes = make_changes([(1, "U", 6), (1, "D", 5)], file=[0, 1])
    assert told(collapse_changes(changes)) == [(1, "U", 6, 0, 0)]


def test_the_second_part_of_a_sequence_decides_where_the_first_is_equal() -> None:
    changes = make_changes([(1, "U", 0), (1, "U", 0), (1, "D", 0)])
    sequence = np.array([[5, 1], [5, TOP], [5, 2]], np.uint64)
    wide = Changes(changes.keys, changes.operation, sequence, changes.file, changes.row)
    assert collapse_changes(wide).row.tolist() == [1]


def test_sequences_are_compared_as_unsigned() -> None:
    assert winners((1, "U", TOP), (1, "D", 1)) == [(1, "U", TOP, 0, 0)]


def test_wide_keys_with_one_half_in_common_are_different_keys() -> None:
    changes = make_changes([(7, "U", 1), (7, "U", 2), (8, "U", 3)])
    keys = Keys(changes.keys.lo, np.array([1, 2, 1], np.uint64))
    wide = Changes(keys, changes.operation, changes.sequence, changes.file, changes.row)
    assert told(collapse_changes(wide)) == [
        (2**64 + 7, "U", 1, 0, 0),
        (2**64 + 8, "U", 3, 0, 2),
        (2 * 2**64 + 7, "U", 2, 0, 1),
    ]


_EVENTS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from("UD"), st.sampled_from([0, 1, 2, 3, 2**63, TOP])),
    max_size=40,
)


@given(_EVENTS, st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_any_events_collapse_as_a_dictionary_would(
    story: list[tuple[int, str, int]], files: list[int]
) -> None:
    """A dictionary that keeps the greater of (sequence, place)."""
    changes = make_changes(story, file=sorted(files[: len(story)]))
    best: dict[int, tuple[int, int]] = {}
    for at, (key, _, sequence) in enumerate(story):
        best[key] = max(best.get(key, (-1, -1)), (sequence, at))
    expected = [told(changes)[at] for _, (_, at) in sorted(best.items())]
    assert told(collapse_changes(changes)) == expected


@given(_EVENTS, st.randoms(use_true_random=False))
def test_shuffled_events_are_sorted_back(story: list[tuple[int, str, int]], random: Any) -> None:
    changes = make_changes(story, file=sorted(at % 3 for at in range(len(story))))
    places = list(range(len(story)))
    random.shuffle(places)
    shuffled = changes.take(np.array(places, np.intp))
    assert told(sort_by_position(shuffled)) == told(changes)


def test_parts_join_in_their_order() -> None:
    one, two = make_changes([(1, "U", 5)]), make_changes([(2, "D", 6)], file=[1])
    assert told(concat_changes([one, two])) == [(1, "U", 5, 0, 0), (2, "D", 6, 1, 0)]


# From here on with files.


def read(folder: Path, io: PyArrowFileIO, table: pa.Table, schema: Schema = ID_AND_NAME) -> Changes:
    return read_changes(io, save(folder, table), 3, shape_of(schema))


def test_only_key_operation_and_sequence_are_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    changes = read(tmp_path, io, events("I5@1 U-1@2 D5@3"))
    assert told(changes) == [(5 + 2**63, "U", 1, 3, 0), (2**63 - 1, "U", 2, 3, 1), (5 + 2**63, "D", 3, 3, 2)]


def test_columns_are_found_by_id_whatever_their_name_and_place(tmp_path: Path, io: PyArrowFileIO) -> None:
    table = events("I5@1")
    renamed = table.rename_columns(["key", "n", "o", "s"]).select([3, 2, 1, 0])
    assert told(read(tmp_path, io, renamed)) == told(read(tmp_path, io, table))


def test_a_file_without_rows_has_no_changes(tmp_path: Path, io: PyArrowFileIO) -> None:
    for kind in (LongType(), StringType(), UUIDType(), DecimalType(9, 2)):
        schema = changelog_schema(("id", kind))
        assert len(read(tmp_path, io, rows_table(schema, []), schema)) == 0


def test_a_null_key_is_refused_with_file_and_row(tmp_path: Path, io: PyArrowFileIO) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), keys=())
    good = {"name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    table = rows_table(schema, [{"id": 1, **good}, {"id": None, **good}])
    with pytest.raises(
        Invalid, match=r"the key is NULL in row 1.*Check primary_keys.*recreate the changelog.*\.parquet$"
    ):
        read(tmp_path, io, table)


@pytest.mark.parametrize("value", ["TRUNCATE", "insert", "", None])
def test_an_unknown_operation_is_refused_with_the_known_ones(
    tmp_path: Path, io: PyArrowFileIO, value: str | None
) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()))
    table = events("I1@1 I2@2")
    at = table.schema.get_field_index("cdc_operation")
    field = table.schema.field(at).with_nullable(True)
    table = table.set_column(at, field, pa.array(["INSERT", value], field.type))
    shown = "NULL" if value is None else repr(value)
    with pytest.raises(Invalid, match=f"unknown operation {shown} in row 1; known are DELETE"):
        read(tmp_path, io, table, schema)


def test_operations_are_read_from_a_dictionary_column(tmp_path: Path, io: PyArrowFileIO) -> None:
    table = events("I1@1 D2@2")
    at = table.schema.get_field_index("cdc_operation")
    field, column = table.schema.field(at), table["cdc_operation"].cast(pa.string()).dictionary_encode()
    table = table.set_column(at, field.with_type(column.type), column)
    assert read(tmp_path, io, table).operation.tolist() == [0, 1]


def test_a_file_without_field_ids_is_refused(tmp_path: Path, io: PyArrowFileIO) -> None:
    bare = events("I1@1").replace_schema_metadata(None)
    bare = pa.table(bare.columns, names=bare.schema.names)
    with pytest.raises(Invalid, match="has no Iceberg field id"):
        read(tmp_path, io, bare)


def test_a_file_without_the_key_column_is_refused(tmp_path: Path, io: PyArrowFileIO) -> None:
    with pytest.raises(Invalid, match="no column with field id 1"):
        read(tmp_path, io, events("I1@1").drop_columns(["id"]))


_BLOBS = [b"17", b"\x00\xff", b""]
_UUIDS = [bytes(range(16)), b"\xff" * 16, b"\x00" * 16]
VARIANTS: dict[str, tuple[Any, list[Any], pa.DataType]] = {
    "string": (StringType(), ["17", "x", ""], pa.string()),
    "large_string": (StringType(), ["17", "x", ""], pa.large_string()),
    "string_view": (StringType(), ["17", "x", ""], pa.string_view()),
    "dictionary": (StringType(), ["17", "x", ""], pa.dictionary(pa.int32(), pa.string())),
    "dictionary of digits": (StringType(), ["17", "18", "19"], pa.dictionary(pa.int8(), pa.string())),
    "binary": (BinaryType(), _BLOBS, pa.binary()),
    "binary_view": (BinaryType(), _BLOBS, pa.binary_view()),
    "uuid without its logical type": (UUIDType(), _UUIDS, pa.binary(16)),
    "int32": (LongType(), [1, -1, 5], pa.int32()),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_key_has_one_code_however_its_file_holds_it(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    """A Parquet file may carry the Arrow type that its writer used. Two codes for one key would be two rows."""
    kind, values, variant = VARIANTS[name]
    schema = changelog_schema(("id", kind))
    row = {"cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    usual = rows_table(schema, [{"id": value, **row} for value in values])
    field = usual.schema.field("id")
    column = usual["id"].combine_chunks()
    stored = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    other = usual.set_column(0, pa.field("id", variant, False, field.metadata), stored.cast(variant))
    assert told(read(tmp_path, io, other, schema)) == told(read(tmp_path, io, usual, schema))
