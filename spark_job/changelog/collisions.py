"""Keys that differ and have one hash: found among rows that are read together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icemirror.errors import MAKE_ANEW, Corrupt
from spark_job.key_index.keys import Indices, Keys, Mask


def refuse_collisions(codes: Keys, keys: Sequence[pa.Array], path: str) -> None:
    """Of two keys with one hash, one would be taken for an older event of the other."""
    one, other = equal_codes(codes)
    differ = np.flatnonzero(~equal_values(keys, one, other))
    if len(differ):
        raise Corrupt(
            f"{path}: rows {int(one[differ[0]])} and {int(other[differ[0]])} have different keys with the same hash; "
            f"nothing was committed. Another mirror hashes them otherwise: {MAKE_ANEW}."
        )


def equal_codes(codes: Keys) -> tuple[Indices, Indices]:
    """Pairs of places with equal codes, which link all places of a code."""
    order = np.argsort(codes.lo if codes.hi is None else codes.hi)
    same = np.flatnonzero(codes.take(order).same_as_next())
    return order[same], order[same + 1]


def equal_values(columns: Sequence[pa.Array], one: Indices, other: Indices) -> Mask:
    """Whether the rows `one` and `other` have equal values in all columns, pair by pair."""
    same = np.ones(len(one), dtype=np.bool_)
    for column in columns:
        equal = pc.equal(column.take(pa.array(one)), column.take(pa.array(other)))
        same &= equal.to_numpy(zero_copy_only=False)
    return same
