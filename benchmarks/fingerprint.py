"""A fingerprint of a table's rows that does not depend on their order, equal for every reader.

Each value becomes 64 bits, is mixed with its column's place, and the row's sum is mixed again; the digest is the
sum over all rows modulo 2⁶⁴. Only wrapping integer arithmetic on whole columns: ten million rows take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

U64 = NDArray[np.uint64]
_CHUNK_BYTES = 1 << 19


class Fingerprint(BaseModel):
    """What two tables with the same rows agree on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = 0
    digest: str = "0" * 16

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint of both sets of rows together."""
        digest = (int(self.digest, 16) + int(other.digest, 16)) % (1 << 64)
        return Fingerprint(rows=self.rows + other.rows, digest=f"{digest:016x}")


def fingerprint(batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> Fingerprint:
    """The fingerprint of all rows, which have (at least) these columns."""
    total = Fingerprint()
    for batch in batches:
        if batch.num_rows:
            total += of_hashes(hash_rows(pa.Table.from_batches([batch]), columns))
    return total


def of_hashes(hashes: U64) -> Fingerprint:
    """The fingerprint of rows whose hashes are known."""
    digest = int(hashes.sum(dtype=np.uint64))
    return Fingerprint(rows=len(hashes), digest=f"{digest:016x}")


def hash_rows(table: pa.Table, columns: pa.Schema) -> U64:
    """64 bits for each row. NULLs do not occur in the data of the benchmarks, and are refused."""
    total = np.zeros(table.num_rows, dtype=np.uint64)
    for place, field in enumerate(columns):
        column = table[field.name].cast(field.type)
        if column.null_count:
            raise ValueError(f"column {field.name} has NULLs")
        total += mix_bits(_bits(pa.concat_arrays(column.chunks)) + np.uint64((place + 1) << 32))
    return mix_bits(total)


def _bits(array: pa.Array) -> U64:
    """Each value as 64 bits."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return _text_bits(array.cast(pa.string()))
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int64())
    values = array.to_numpy(zero_copy_only=False)
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values.astype(np.int64)
    return np.ascontiguousarray(wide).view(np.uint64)


def _text_bits(array: pa.Array) -> U64:
    """Each byte times a number that belongs to its place in the text, and the length."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    text = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, np.uint8)
    lengths = np.diff(offsets).astype(np.int64)
    if len(text) and lengths.min() == lengths.max():
        return _equal_text_bits(text.reshape(len(lengths), -1))
    places = np.arange(len(text)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    weighed = (
        text.astype(np.uint64) * mix_bits(np.arange(1, lengths.max(initial=0) + 1, dtype=np.uint64))[places]
    )
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighed, dtype=np.uint64)])
    at = (offsets - offsets[0]).astype(np.int64)
    bits: U64 = sums[at[1:]] - sums[at[:-1]] + lengths.astype(np.uint64)
    return bits


def _equal_text_bits(text: NDArray[np.uint8]) -> U64:
    """The same for texts of one length, some at a time: eight times quicker."""
    rows, length = text.shape
    weights = mix_bits(np.arange(1, length + 1, dtype=np.uint64))
    at_once = max(1, _CHUNK_BYTES // length)
    parts = [text[start : start + at_once].astype(np.uint64) @ weights for start in range(0, rows, at_once)]
    return np.concatenate(parts) + np.uint64(length)


def mix_bits(values: U64) -> U64:
    """SplitMix64's finaliser: every bit of the input moves about half of the output's."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
