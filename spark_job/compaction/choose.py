"""Which data files are worth putting together: small ones of one partition, once there are enough of a size; pure.

Sizes are tiers, each eight times the one below. Files of a tier become one of the next, so a row is written anew once
for each tier, and of each tier fewer than eight files stay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from pyiceberg.typedef import Record

from spark_job.iceberg.view import LiveFile

FAN_IN = 8
_LEAST_BYTES = 8 << 10  # of the second tier: smaller ones are all in the first
_TIERS = 4  # up to 4 MB: larger ones are left to the engines that are made for it
_MOST_BYTES = 32 << 20  # in one commit
_MOST_FILES = 256


def choose_small(live: Iterable[LiveFile], spec_id: int, *, with_row_ids: bool) -> tuple[LiveFile, ...]:
    """The files that the next commit puts together; none if that is not worth it yet.

    Those of an older partition spec are left alone, and rows that have no ids where all shall have some.
    """
    tiers: dict[tuple[Record, int], list[LiveFile]] = defaultdict(list)
    for file in live:
        tier = _tier(file)
        if file.spec_id == spec_id and tier < _TIERS and (file.first_row_id is not None or not with_row_ids):
            tiers[file.partition, tier].append(file)
    due = [files for files in tiers.values() if len(files) >= FAN_IN and any(map(_live_rows, files))]
    return tuple(_within_bounds(sorted(due, key=lambda files: sum(map(_live_bytes, files)))))


def _tier(file: LiveFile) -> int:
    """By the bytes of the rows that are left of it."""
    tier = 0
    while _live_bytes(file) >= _LEAST_BYTES << (3 * tier):
        tier += 1
    return tier


def _live_bytes(file: LiveFile) -> int:
    return file.bytes * _live_rows(file) // max(1, file.rows)


def _live_rows(file: LiveFile) -> int:
    return file.rows - file.deleted


def _within_bounds(tiers: Iterable[list[LiveFile]]) -> Iterator[LiveFile]:
    """As many of them as one commit may take; the rest of a tier is left if that is too few."""
    files, weight = _MOST_FILES, _MOST_BYTES
    for tier in tiers:
        total = list(accumulate(map(_live_bytes, tier)))
        fitting = tier[: min(files, bisect_right(total, weight))]
        if len(fitting) < FAN_IN:
            return
        yield from fitting
        files, weight = files - len(fitting), weight - total[len(fitting) - 1]
