"""The ways to read a segment, and the comparison of what they find."""

from __future__ import annotations

from spark_job.index.segment import Entries
from tests.unit.spark_job.index.samples import (
    plain,
)

TOP = 2**64 - 1


# Read mode → limits of the segment cache that are set to 0.
READ_MODES = {
    "whole segment": (),
    "whole segment if many keys are requested": ("_ALWAYS_CACHED_BYTES",),
    "by blocks": ("_ALWAYS_CACHED_BYTES", "_MAX_CACHED_BYTES"),
}


def check_same(found: Entries, expected: Entries) -> None:
    assert plain(found.keys) == plain(expected.keys)
    assert found.file.tolist() == expected.file.tolist()
    assert found.pos.tolist() == expected.pos.tolist()
    assert found.orders.tolist() == expected.orders.tolist()
