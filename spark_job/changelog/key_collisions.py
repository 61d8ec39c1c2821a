"""Finds different keys with the same hash: one would be taken for an older event of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import RECREATE_ADVICE, Corrupt
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.read_keys import read_event_keys
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import Indices, Mask
from spark_job.columns.distinct import distinct
from spark_job.index.keys import Keys

SAMPLE_FILES = 2


def refuse_collisions(codes: Keys, keys: Sequence[pa.Array], path: str) -> None:
    """Raise `Corrupt` if keys of one file differ, but have the same hash."""
    left, right = _pairs_with_equal_code(codes)
    differing = np.flatnonzero(~_have_equal_values(keys, left, right))
    if len(differing):
        raise Corrupt(
            f"rows {int(left[differing[0]])} and {int(right[differing[0]])} have different keys with the same hash; "
            f"nothing was committed. A new mirror uses another salt: {RECREATE_ADVICE}. The file: {path}"
        )


def check_hash_collisions(
    io: FileIO,
    files: Sequence[ChangelogFile],
    shape: ChangelogShape,
    events: EventBatch,
    max_rows: int | None,
) -> None:
    """Raise `Corrupt` if events of different files have different keys with the same hash.

    Events must be sorted by (file, row). Events of the same file were compared when it was read. `max_rows`: sample so
    many pairs of a few files; None: check all.
    """
    if shape.key_codec.is_lossless or len(files) == 1:
        return
    left, right = _pairs_with_equal_code(events.keys)
    in_two_files = events.file[left] != events.file[right]
    left, right = left[in_two_files], right[in_two_files]
    if max_rows is not None:
        file_pairs = (events.file[left].astype(np.uint64) << np.uint64(32)) | events.file[right]
        sampled_pairs = random_sample(distinct(file_pairs), SAMPLE_FILES)
        sampled = np.flatnonzero(np.isin(file_pairs, sampled_pairs))[:max_rows]
        left, right = left[sampled], right[sampled]
    if not len(left):
        return
    indices = distinct(np.concatenate([left, right]))
    keys = read_event_keys(io, files, shape, events, indices)
    differing = np.flatnonzero(
        ~_have_equal_values(keys, np.searchsorted(indices, left), np.searchsorted(indices, right))
    )
    if len(differing):
        first, second = int(left[differing[0]]), int(right[differing[0]])
        raise Corrupt(
            f"two keys have the same hash; nothing was committed. A recreated mirror uses another hash: "
            f"{RECREATE_ADVICE}. Found in row {int(events.row[first])} of {files[int(events.file[first])].path} and "
            f"row {int(events.row[second])} of {files[int(events.file[second])].path}"
        )


def random_sample(values: NDArray[Any], max_values: int) -> NDArray[Any]:
    """Return a random sample of at most `max_values` values."""
    # Not seeded: what one merge misses, the next may find.
    return np.random.default_rng().choice(values, min(max_values, len(values)), replace=False)


def _pairs_with_equal_code(codes: Keys) -> tuple[Indices, Indices]:
    """Return pairs of indices with equal codes; the pairs connect all indices of a code."""
    order = np.argsort(codes.lo if codes.hi is None else codes.hi)
    pairs = np.flatnonzero(codes.take(order).same_as_next())
    return order[pairs], order[pairs + 1]


def _have_equal_values(columns: Sequence[pa.Array], left: Indices, right: Indices) -> Mask:
    """Return, pair by pair, whether the rows `left` and `right` have equal values in all columns."""
    equal = np.ones(len(left), dtype=np.bool_)
    for column in columns:
        equal_in_column = pc.equal(column.take(pa.array(left)), column.take(pa.array(right)))
        equal &= equal_in_column.to_numpy(zero_copy_only=False)
    return equal
