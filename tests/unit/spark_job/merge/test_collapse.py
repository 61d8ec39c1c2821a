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
from spark_job.changelog.event_batch import EventBatch, concat_events, sort_by_position
from spark_job.changelog.read_events import read_events
from spark_job.index.keys import Keys
from spark_job.merge.collapse import collapse_changes
from tests.lab.lab import ID_AND_NAME, changelog_schema, events, rows_table, sequence_text
from tests.unit.spark_job.merge.samples import change_tuples, make_changes, save, shape_of

TOP = 2**64 - 1


def collapse(*events: tuple[int, str, int]) -> list[tuple[int, str, int, int, int]]:
    return change_tuples(collapse_changes(make_changes(events)))


def test_zero_events_collapse_to_zero_changes() -> None:
    assert not len(collapse_changes(make_changes([])))


def test_greatest_sequence_of_each_key_wins() -> None:
    assert collapse((2, "U", 5), (1, "U", 3), (2, "U", 7), (1, "U", 4)) == [
        (1, "U", 4, 0, 3),
        (2, "U", 7, 0, 2),
    ]


def test_later_delete_wins_over_an_earlier_update() -> None:
    assert collapse((1, "U", 3), (1, "D", 4)) == [(1, "D", 4, 0, 1)]


def test_insert_after_a_delete_restores_the_row() -> None:
    assert collapse((1, "D", 4), (1, "U", 5)) == [(1, "U", 5, 0, 1)]


def test_late_event_loses_at_any_position() -> None:
    assert collapse((1, "U", 9), (1, "D", 4)) == [(1, "U", 9, 0, 0)]
    assert collapse((1, "D", 9), (1, "U", 4)) == [(1, "D", 9, 0, 0)]


def test_last_row_wins_among_equal_sequences() -> None:
    assert collapse((1, "U", 5), (1, "D", 5), (1, "U", 5)) == [(1, "U", 5, 0, 2)]


def test_last_file_wins_among_equal_sequences() -> None:
    changes = make_changes([(1, "U", 5), (1, "D", 5), (1, "U", 5)], file=[0, 1, 1])
    assert change_tuples(collapse_changes(changes)) == [(1, "U", 5, 1, 1)]


def test_greater_sequence_in_an_earlier_file_wins() -> None:
    changes = make_changes([(1, "U", 6), (1, "D", 5)], file=[0, 1])
    assert change_tuples(collapse_changes(changes)) == [(1, "U", 6, 0, 0)]


def test_second_part_of_a_sequence_decides_if_the_first_is_equal() -> None:
    changes = make_changes([(1, "U", 0), (1, "U", 0), (1, "D", 0)])
    sequence = np.array([[5, 1], [5, TOP], [5, 2]], np.uint64)
    wide = EventBatch(changes.keys, changes.operation, sequence, changes.file, changes.row)
    assert collapse_changes(wide).row.tolist() == [1]


def test_sequences_are_compared_as_unsigned() -> None:
    assert collapse((1, "U", TOP), (1, "D", 1)) == [(1, "U", TOP, 0, 0)]


def test_wide_keys_with_one_equal_half_are_different_keys() -> None:
    changes = make_changes([(7, "U", 1), (7, "U", 2), (8, "U", 3)])
    keys = Keys(changes.keys.lo, np.array([1, 2, 1], np.uint64))
    wide = EventBatch(keys, changes.operation, changes.sequence, changes.file, changes.row)
    assert change_tuples(collapse_changes(wide)) == [
        (2**64 + 7, "U", 1, 0, 0),
        (2**64 + 8, "U", 3, 0, 2),
        (2 * 2**64 + 7, "U", 2, 0, 1),
    ]


_EVENTS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from("UD"), st.sampled_from([0, 1, 2, 3, 2**63, TOP])),
    max_size=40,
)


@given(_EVENTS, st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_events_collapse_like_entries_of_a_dictionary(
    sample: list[tuple[int, str, int]], files: list[int]
) -> None:
    """The dictionary keeps the greatest (sequence, position) of each key."""
    changes = make_changes(sample, file=sorted(files[: len(sample)]))
    best: dict[int, tuple[int, int]] = {}
    for position, (key, _, sequence) in enumerate(sample):
        best[key] = max(best.get(key, (-1, -1)), (sequence, position))
    expected = [change_tuples(changes)[position] for _, (_, position) in sorted(best.items())]
    assert change_tuples(collapse_changes(changes)) == expected


@given(_EVENTS, st.randoms(use_true_random=False))
def test_shuffled_events_are_sorted_by_position(sample: list[tuple[int, str, int]], random: Any) -> None:
    changes = make_changes(sample, file=sorted(position % 3 for position in range(len(sample))))
    positions = list(range(len(sample)))
    random.shuffle(positions)
    shuffled = changes.take(np.array(positions, np.intp))
    assert change_tuples(sort_by_position(shuffled)) == change_tuples(changes)


def test_changes_are_concatenated_in_order() -> None:
    first, second = make_changes([(1, "U", 5)]), make_changes([(2, "D", 6)], file=[1])
    assert change_tuples(concat_events([first, second])) == [(1, "U", 5, 0, 0), (2, "D", 6, 1, 0)]


# The following tests read files.


def read(folder: Path, io: PyArrowFileIO, table: pa.Table, schema: Schema = ID_AND_NAME) -> EventBatch:
    return read_events(io, save(folder, table), 3, shape_of(schema))


def test_only_key_operation_and_sequence_are_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    changes = read(tmp_path, io, events("I5@1 U-1@2 D5@3"))
    assert change_tuples(changes) == [
        (5 + 2**63, "U", 1, 3, 0),
        (2**63 - 1, "U", 2, 3, 1),
        (5 + 2**63, "D", 3, 3, 2),
    ]


def test_columns_are_found_by_id_under_any_name_and_position(tmp_path: Path, io: PyArrowFileIO) -> None:
    table = events("I5@1")
    renamed = table.rename_columns(["key", "n", "o", "s"]).select([3, 2, 1, 0])
    assert change_tuples(read(tmp_path, io, renamed)) == change_tuples(read(tmp_path, io, table))


def test_file_without_rows_has_no_changes(tmp_path: Path, io: PyArrowFileIO) -> None:
    for kind in (LongType(), StringType(), UUIDType(), DecimalType(9, 2)):
        schema = changelog_schema(("id", kind))
        assert len(read(tmp_path, io, rows_table(schema, []), schema)) == 0


def test_null_key_is_refused_with_file_and_row(tmp_path: Path, io: PyArrowFileIO) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), keys=())
    good = {"name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    table = rows_table(schema, [{"id": 1, **good}, {"id": None, **good}])
    with pytest.raises(
        Invalid, match=r"the key is NULL in row 1.*Check primary_keys.*recreate the changelog.*\.parquet$"
    ):
        read(tmp_path, io, table)


@pytest.mark.parametrize("value", ["TRUNCATE", "insert", "", None])
def test_unknown_operation_is_refused_with_a_list_of_known_ones(
    tmp_path: Path, io: PyArrowFileIO, value: str | None
) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()))
    table = events("I1@1 I2@2")
    position = table.schema.get_field_index("cdc_operation")
    field = table.schema.field(position).with_nullable(True)
    table = table.set_column(position, field, pa.array(["INSERT", value], field.type))
    shown = "NULL" if value is None else repr(value)
    with pytest.raises(Invalid, match=f"unknown operation {shown} in row 1; known are DELETE"):
        read(tmp_path, io, table, schema)


def test_operations_are_read_from_a_dictionary_column(tmp_path: Path, io: PyArrowFileIO) -> None:
    table = events("I1@1 D2@2")
    position = table.schema.get_field_index("cdc_operation")
    field, column = table.schema.field(position), table["cdc_operation"].cast(pa.string()).dictionary_encode()
    table = table.set_column(position, field.with_type(column.type), column)
    assert read(tmp_path, io, table).operation.tolist() == [0, 1]


def test_file_without_field_ids_is_refused(tmp_path: Path, io: PyArrowFileIO) -> None:
    bare = events("I1@1").replace_schema_metadata(None)
    bare = pa.table(bare.columns, names=bare.schema.names)
    with pytest.raises(Invalid, match="has no Iceberg field id"):
        read(tmp_path, io, bare)


def test_file_without_the_key_column_is_refused(tmp_path: Path, io: PyArrowFileIO) -> None:
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
def test_key_has_the_same_code_in_every_arrow_type(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    """A Parquet file may contain the Arrow type of its writer. Two codes for one key would give two rows."""
    kind, values, variant = VARIANTS[name]
    schema = changelog_schema(("id", kind))
    row = {"cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    usual = rows_table(schema, [{"id": value, **row} for value in values])
    field = usual.schema.field("id")
    column = usual["id"].combine_chunks()
    stored = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    converted = usual.set_column(0, pa.field("id", variant, False, field.metadata), stored.cast(variant))
    assert change_tuples(read(tmp_path, io, converted, schema)) == change_tuples(
        read(tmp_path, io, usual, schema)
    )
