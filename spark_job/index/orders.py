"""The order of each entry: sequence parts, then the changelog's snapshot sequence number.

Orders are a separate Parquet blob, addressed by entry number. Only late and replayed events read it: an event
with a greater order than the segment's greatest is newer than every entry of the segment.
"""

from __future__ import annotations

import io as stdio

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, InputStream

from icemirror.errors import Corrupt
from spark_job.columns.arrays import U64, Mask
from spark_job.index.puffin import Span
from spark_job.storage.read_exactly import read_exactly

BLOB_TYPE = "icemirror-key-order-v1"
_ROW_GROUP_ENTRIES = 16_384
# Up to this size it is read in one request: Parquet would read the footer and each column separately.
_READ_WHOLE_BYTES = 1 << 18


def encode_orders(orders: U64) -> bytes:
    """Encode a matrix of orders, one row per entry, as a Parquet file."""
    columns = [f"part_{part}" for part in range(orders.shape[1])]
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in columns])
    table = pa.table(
        [np.ascontiguousarray(orders[:, part]).view(np.int64) for part in range(orders.shape[1])],
        schema=schema,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=_ROW_GROUP_ENTRIES,
        compression="zstd",
        use_dictionary=False,
        column_encoding="DELTA_BINARY_PACKED",
        write_statistics=False,
        store_schema=False,
        write_page_checksum=True,
    )
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def read_orders(io: FileIO, path: str, span: Span, entries: U64, parts: int) -> U64:
    """Return the orders of these entry numbers, one row per entry."""
    with io.new_input(path).open() as stream:
        span_file = _SpanFile(stream, path, span)
        is_small = span.length <= _READ_WHOLE_BYTES
        source = pa.BufferReader(span_file.read()) if is_small else span_file
        try:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            group_of_entry = (entries // _ROW_GROUP_ENTRIES).astype(np.intp)
            groups, group_index = np.unique(group_of_entry, return_inverse=True)
            table = file.read_row_groups(groups.tolist())
        except (
            pa.ArrowException,
            OSError,
            UnicodeDecodeError,
        ) as error:  # the last: a name that is not UTF-8
            if span_file.failure is not None:
                raise span_file.failure from error
            raise Corrupt(f"the orders of the key index cannot be read ({error}): {path}") from error
    rows = group_index * _ROW_GROUP_ENTRIES + (entries % _ROW_GROUP_ENTRIES).astype(np.intp)
    if table.num_columns != parts or (len(rows) and int(rows.max()) >= table.num_rows):
        raise Corrupt(f"the key index has fewer orders than entries: {path}")
    return np.stack([column.to_numpy().view(np.uint64)[rows] for column in table.columns], axis=1)


def compare_orders(left: U64, right: U64) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """Return −1, 0 or 1 for each row: left is less than, equal to or greater than right, part by part."""
    result = np.zeros(len(left), dtype=np.int8)
    for part in range(left.shape[1]):
        undecided = result == 0
        result[undecided & (left[:, part] > right[:, part])] = 1
        result[undecided & (left[:, part] < right[:, part])] = -1
    return result


def greatest_order(orders: U64) -> tuple[int, ...]:
    """Return the greatest row."""
    is_greatest = np.ones(len(orders), dtype=np.bool_)
    for part in range(orders.shape[1]):
        is_greatest &= orders[:, part] == orders[is_greatest, part].max()
    return tuple(int(value) for value in orders[np.argmax(is_greatest)])


def is_sorted(orders: U64) -> bool:
    """Return whether each row is greater than or equal to the previous row."""
    return bool((compare_orders(orders[1:], orders[:-1]) >= 0).all())


def is_greater(orders: U64, bound: tuple[int, ...]) -> Mask:
    """Return which rows are greater than the bound."""
    return compare_orders(orders, np.broadcast_to(np.array(bound, dtype=np.uint64), orders.shape)) > 0


class _SpanFile(stdio.RawIOBase):
    """A span of an open file, presented as a file.

    `failure` keeps an error of the storage: Arrow's error does not distinguish it from damage.
    """

    failure: Exception | None = None

    def __init__(self, stream: InputStream, path: str, span: Span) -> None:
        self._stream, self._path, self._span, self._position = stream, path, span, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._position, self._span.length)[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        remaining = max(self._span.length - self._position, 0)
        size = remaining if size < 0 else min(size, remaining)
        try:
            data = read_exactly(self._stream, self._path, self._span.offset + self._position, size)
        except Exception as error:
            self.failure = error
            raise
        self._position += len(data)
        return data
