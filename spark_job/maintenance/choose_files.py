"""Chooses the data files to compact: small files of one partition, once there are enough of about one size.

Sizes form tiers, each eight times the one below. Files of a tier become one file of the next tier. So a row is
rewritten once for each tier, and fewer than eight files of each tier remain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from spark_job.iceberg.live_files import LiveFile

FAN_IN = 8
_FIRST_TIER_BYTES = 8 << 10
_TIERS = 4  # up to 4 MB; larger files are left to other engines' compaction
_MAX_FILE_BYTES = 32 << 20  # all of a file is read, also where few of its rows are live
# Limits of one commit:
_MAX_FILES = 256
_MAX_LIVE_BYTES = 32 << 20
_MAX_READ_BYTES = FAN_IN * _MAX_FILE_BYTES

FileGroup = tuple[LiveFile, ...]
"""Files of one partition and one tier, which become one file."""


def choose_files_to_compact(
    live: Iterable[LiveFile], spec_id: int, target_bytes: int, *, with_row_ids: bool
) -> tuple[FileGroup, ...]:
    """Return the groups that the next commit compacts; none while no tier is full.

    Files of an older partition spec are skipped, and `with_row_ids` files whose rows have no ids.
    """
    tiers: dict[tuple[str, int], list[LiveFile]] = defaultdict(list)
    for file in live:
        if (
            file.spec_id == spec_id
            and file.bytes <= _MAX_FILE_BYTES
            and _live_bytes(file) * FAN_IN <= target_bytes
            and (tier := _tier(file)) < _TIERS
            and (file.first_row_id is not None or not with_row_ids)
        ):
            # Keyed by its text, since a partition of NaN does not equal itself.
            tiers[repr(file.partition), tier].append(file)
    full_tiers = [
        sorted(files, key=_is_empty)
        for files in tiers.values()
        if len(files) >= FAN_IN and any(file.live_rows for file in files)
    ]
    return tuple(_limit_commit(sorted(full_tiers, key=lambda files: sum(map(_live_bytes, files)))))


def first_files(group: FileGroup) -> FileGroup:
    """Return the first files of a group, as few as are worth compacting."""
    return group[:FAN_IN]


def _tier(file: LiveFile) -> int:
    """Return the tier of a file by the bytes of its live rows."""
    tier = 0
    while _live_bytes(file) >= _FIRST_TIER_BYTES << (3 * tier):
        tier += 1
    return tier


def _live_bytes(file: LiveFile) -> int:
    return file.bytes * file.live_rows // max(1, file.rows)


def _is_empty(file: LiveFile) -> bool:
    return file.live_rows == 0


def _limit_commit(tiers: Iterable[list[LiveFile]]) -> Iterator[FileGroup]:
    """Yield groups until one commit is full; stop when fewer than FAN_IN files of a tier fit."""
    remaining_files = _MAX_FILES
    remaining_live_bytes, remaining_read_bytes = _MAX_LIVE_BYTES, _MAX_READ_BYTES
    for tier in tiers:
        group: list[LiveFile] = []
        for file in tier:
            live_bytes = _live_bytes(file)
            if (
                len(group) == remaining_files
                or live_bytes > remaining_live_bytes
                or file.bytes > remaining_read_bytes
            ):
                break
            group.append(file)
            remaining_live_bytes -= live_bytes
            remaining_read_bytes -= file.bytes
        if len(group) < FAN_IN:
            return
        remaining_files -= len(group)
        yield tuple(group)
