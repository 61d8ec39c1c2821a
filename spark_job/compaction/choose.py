"""Which data files are worth putting together: small ones of one partition, once there are enough of a size; pure.

Sizes are tiers, each eight times the one below. Files of a tier become one of the next, so a row is written anew once
for each tier, and of each tier fewer than eight files stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from spark_job.iceberg.view import LiveFile

FAN_IN = 8
_LEAST_BYTES = 8 << 10  # of the second tier: smaller ones are all in the first
_TIERS = 4  # up to 4 MB: larger ones are left to the engines that are made for it
_MOST_FILE_BYTES = 32 << 20  # whatever is left of its rows, all of a file is read
# In one commit:
_MOST_FILES = 256
_MOST_BYTES = 32 << 20
_MOST_READ_BYTES = FAN_IN * _MOST_FILE_BYTES

Group = tuple[LiveFile, ...]
"""Files of one partition and of about one size, which become one."""


def choose_small(
    live: Iterable[LiveFile], spec_id: int, target_bytes: int, *, with_row_ids: bool
) -> tuple[Group, ...]:
    """The groups that the next commit puts together, each into files of this size; none if that is not worth it yet.

    Those of an older partition spec are left alone, and rows that have no ids where all shall have some.
    """
    tiers: dict[tuple[str, int], list[LiveFile]] = defaultdict(list)
    for file in live:
        if (
            file.spec_id == spec_id
            and file.bytes <= _MOST_FILE_BYTES
            and _live_bytes(file) * FAN_IN <= target_bytes
            and (tier := _tier(file)) < _TIERS
            and (file.first_row_id is not None or not with_row_ids)
        ):
            # By the words for it, since a partition of NaN does not equal itself.
            tiers[repr(file.partition), tier].append(file)
    due = [
        sorted(files, key=_is_empty)
        for files in tiers.values()
        if len(files) >= FAN_IN and any(map(_live_rows, files))
    ]
    return tuple(_within_bounds(sorted(due, key=lambda files: sum(map(_live_bytes, files)))))


def fewest(group: Group) -> Group:
    """As few of a group as are worth it."""
    return group[:FAN_IN]


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


def _is_empty(file: LiveFile) -> bool:
    return _live_rows(file) == 0


def _within_bounds(tiers: Iterable[list[LiveFile]]) -> Iterator[Group]:
    """As much as one commit may take; what is left of a tier then must be enough to be worth it."""
    files, weight, reading = _MOST_FILES, _MOST_BYTES, _MOST_READ_BYTES
    for tier in tiers:
        taken: list[LiveFile] = []
        for file in tier:
            heavier, longer = weight - _live_bytes(file), reading - file.bytes
            if len(taken) == files or min(heavier, longer) < 0:
                break
            taken.append(file)
            weight, reading = heavier, longer
        if len(taken) < FAN_IN:
            return
        files -= len(taken)
        yield tuple(taken)
