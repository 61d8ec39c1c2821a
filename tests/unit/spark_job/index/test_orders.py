from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Corrupt
from spark_job.columns.arrays import U64
from spark_job.index.orders import (
    compare_orders,
    encode_orders,
    greatest_order,
    is_greater,
    is_sorted,
    read_orders,
)
from spark_job.index.puffin import Span
from tests.unit.spark_job.index.samples import flip

TOP = 2**64 - 1
GROUP = 16_384
_PART = st.sampled_from([0, 1, 2**63 - 1, 2**63, TOP - 1, TOP])
_ROWS = st.lists(st.tuples(_PART, _PART, _PART), min_size=1, max_size=12)


def matrix(rows: list[tuple[int, ...]]) -> U64:
    return np.array(rows, dtype=np.uint64)


def save(folder: Path, content: bytes, before: bytes = b"") -> tuple[str, Span]:
    path = folder / str(uuid4())
    path.write_bytes(before + content)
    return str(path), Span(offset=len(before), length=len(content))


@given(_ROWS)
def test_orders_are_compared_part_by_part_as_unsigned_numbers(rows: list[tuple[int, ...]]) -> None:
    left, right = matrix(rows), matrix(rows[::-1])
    expected = [(a > b) - (a < b) for a, b in zip(rows, rows[::-1], strict=True)]
    assert compare_orders(left, right).tolist() == expected


@given(_ROWS)
def test_greatest_order_is_the_greatest_row(rows: list[tuple[int, ...]]) -> None:
    assert greatest_order(matrix(rows)) == max(rows)


@given(_ROWS)
def test_orders_are_sorted_like_tuples(rows: list[tuple[int, ...]]) -> None:
    assert is_sorted(matrix(rows)) == (rows == sorted(rows))
    assert is_sorted(matrix(sorted(rows)))


@given(_ROWS, st.tuples(_PART, _PART, _PART))
def test_row_exceeds_a_bound_only_if_it_is_greater(
    rows: list[tuple[int, ...]], bound: tuple[int, ...]
) -> None:
    assert is_greater(matrix(rows), bound).tolist() == [row > bound for row in rows]


@pytest.mark.parametrize("count", [1, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP + 7])
@pytest.mark.parametrize("parts", [1, 3])
def test_orders_are_read_by_entry_number(tmp_path: Path, io: PyArrowFileIO, count: int, parts: int) -> None:
    random = np.random.default_rng(count)
    orders = random.integers(0, TOP, (count, parts), dtype=np.uint64, endpoint=True)
    orders[0] = TOP
    orders[-1] = 0
    path, span = save(tmp_path, encode_orders(orders), before=b"something else")
    entries = random.integers(0, count, 50).astype(np.uint64)  # unsorted, with duplicates
    entries[:2] = 0, count - 1
    found = read_orders(io, path, span, entries, parts)
    assert (found == orders[entries.astype(np.intp)]).all()


@pytest.mark.parametrize("groups", [[2], [0, 2], [1]])
def test_only_requested_row_groups_are_read(tmp_path: Path, io: PyArrowFileIO, groups: list[int]) -> None:
    orders = np.arange(3 * GROUP, dtype=np.uint64).reshape(-1, 1)
    path, span = save(tmp_path, encode_orders(orders))
    entries = np.array([group * GROUP + 5 for group in groups], np.uint64)
    assert read_orders(io, path, span, entries, 1)[:, 0].tolist() == entries.tolist()


def test_extreme_differences_are_kept_by_the_delta_encoding(tmp_path: Path, io: PyArrowFileIO) -> None:
    orders = matrix([(0,), (TOP,), (0,), (2**63,), (2**63 - 1,), (TOP,), (1,)])
    path, span = save(tmp_path, encode_orders(orders))
    assert (read_orders(io, path, span, np.arange(7, dtype=np.uint64), 1) == orders).all()


def test_orders_are_a_valid_parquet_file(tmp_path: Path) -> None:
    orders = matrix([(1, TOP), (2**63, 4)])
    path, _ = save(tmp_path, encode_orders(orders))
    table = pq.read_table(path)
    assert table.schema.names == ["part_0", "part_1"]
    assert not any(field.nullable for field in table.schema)
    assert [column.to_numpy().view(np.uint64).tolist() for column in table] == [[1, 2**63], [TOP, 4]]


def test_equal_orders_take_few_bytes() -> None:
    """The initial copy: every row has sequence zero."""
    assert len(encode_orders(np.zeros((100_000, 3), np.uint64))) < 20_000


def test_fewer_orders_than_entries_are_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    path, span = save(tmp_path, encode_orders(matrix([(1, 2), (3, 4)])))
    with pytest.raises(Corrupt, match="fewer orders"):
        read_orders(io, path, span, np.array([2], np.uint64), 2)


def test_entry_beyond_the_last_row_group_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    path, span = save(tmp_path, encode_orders(matrix([(1, 2), (3, 4)])))
    with pytest.raises(Corrupt):
        read_orders(io, path, span, np.array([5 * GROUP], np.uint64), 2)


def test_another_number_of_parts_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    path, span = save(tmp_path, encode_orders(matrix([(1, 2), (3, 4)])))
    with pytest.raises(Corrupt):
        read_orders(io, path, span, np.array([1], np.uint64), 3)


def test_orders_that_are_not_parquet_are_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    path, span = save(tmp_path, b"PAR1 but not really PAR1")
    with pytest.raises(Corrupt, match="cannot be read"):
        read_orders(io, path, span, np.array([0], np.uint64), 1)


def test_truncated_orders_are_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    content = encode_orders(matrix([(number, 7) for number in range(400)]))
    for end in range(0, len(content), max(1, len(content) // 60)):
        path, _ = save(tmp_path, content[:end])
        with pytest.raises(Corrupt):
            read_orders(io, path, Span(offset=0, length=len(content)), np.arange(400, dtype=np.uint64), 2)


def test_damaged_orders_are_corrupt_or_correct(tmp_path: Path, io: PyArrowFileIO) -> None:
    """A wrong order would let an old event overwrite a row."""
    random = np.random.default_rng(4)
    orders = random.integers(0, 2**40, (600, 2), dtype=np.uint64)
    content = encode_orders(orders)
    wrong = []
    for offset in np.linspace(0, len(content) - 1, 120).astype(int).tolist():
        path, span = save(tmp_path, flip(content, offset, int(random.integers(8))))
        try:
            found = read_orders(io, path, span, np.arange(600, dtype=np.uint64), 2)
        except Corrupt:
            continue
        if not (found == orders).all():
            wrong.append(offset)
    assert not wrong, f"{len(wrong)} of 120 flipped bits gave wrong orders, the first at byte {wrong[0]}"


def test_bytes_after_the_span_are_not_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Bytes after the span are not part of it, even if they resemble a Parquet footer."""
    inner, outer = encode_orders(matrix([(1, 1)])), encode_orders(matrix([(9, 9), (9, 9)]))
    path, span = save(tmp_path, inner)
    Path(path).write_bytes(inner + outer)
    assert read_orders(io, path, span, np.array([0], np.uint64), 2).tolist() == [[1, 1]]


def test_orders_are_written_in_row_groups(tmp_path: Path) -> None:
    path, _ = save(tmp_path, encode_orders(np.zeros((3 * GROUP + 1, 1), np.uint64)))
    footer = pq.read_metadata(path)
    sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    assert sizes == [GROUP, GROUP, GROUP, 1]
    assert pa.types.is_int64(pq.read_schema(path).field(0).type)
