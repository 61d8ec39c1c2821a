"""Which truncation of the source a merge starts from, and where it must stop.

A mirror that is built from the beginning skips the events before the last truncation, so only the last truncation costs
a scan. An existing mirror has rows from before: only a rebuild is free of them, unless the truncation is one that was
followed already and is delivered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from icemirror.errors import REBUILD, Invalid, Transient
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource, Truncation
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import (
    LocatedTruncation,
    cached_truncation,
    describe_truncation,
    events_before,
    find_truncation,
    is_new_truncation,
)
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan, merged_files


def follow_truncation(planned: TablePlan, slice_: Slice) -> tuple[TablePlan, Slice] | Diverged:
    """Return the table and its slice with the truncation to follow, or a divergence if the mirror has older rows.

    With `on_truncate: stop` the first merge is not scanned: it stops when it reads the truncation.
    """
    shape, mirror, io = planned.shape, planned.mirror, planned.changelog.io
    if not shape.truncate_operations or shape.is_keyless:
        return planned, slice_
    if mirror is not None and mirror.cursor is not None:
        unmerged = cached_truncation(slice_.files, shape)
        if unmerged is None or not is_new_truncation(unmerged.truncation, shape.followed_truncation):
            return planned, slice_
        if not _is_delivered_again(planned, slice_, unmerged.truncation):
            return _diverged(planned.settings, shape, unmerged)
        return _start_from(planned, slice_, unmerged.truncation)
    if planned.settings.on_truncate == "stop" and not planned.staged:
        return planned, slice_
    last = find_truncation(io, _waiting_files(planned), shape)
    if last is None:
        return planned, slice_
    if mirror is not None and mirror.live_rows and not planned.staged:
        return _diverged(planned.settings, shape, last)  # an adopted mirror has rows from before
    return _start_from(planned, slice_, last.truncation)


def find_unmerged_truncation(planned: TablePlan) -> Diverged | None:
    """Scan everything that waits for a truncation that the mirror has not followed. Reads the operation column."""
    shape, mirror = planned.shape, planned.mirror
    if planned.staged or mirror is None or mirror.head is None:
        return None
    unmerged = find_truncation(planned.changelog.io, _waiting_files(planned), shape)
    if unmerged is None or not is_new_truncation(unmerged.truncation, shape.followed_truncation):
        return None
    return _diverged(planned.settings, shape, unmerged)


def require_followed_truncation(planned: TablePlan) -> None:
    """Refuse a mirror that was built from a truncation which the changelog no longer contains.

    A truncation behind the cursor stays followed. Format v1 numbers no commits, so it is
    unknown there whether a truncation is merged.
    """
    source = planned.mirror.cursor.source if planned.mirror and planned.mirror.cursor else None
    last = planned.shape.followed_truncation
    if source is None or last is None or not last.commit or not _is_unmerged(last, source):
        return
    name, changelog = planned.settings.changelog_id, planned.changelog
    if changelog.metadata.next_sequence_number() <= last.commit:
        raise Transient(
            f"{name}: the catalog returned a state before commit {last.commit}; a later poll may return a newer one."
        )
    candidates = [
        file
        for file in _waiting_files(planned)
        if (file.sequence_number, file.index_in_commit) == (last.commit, last.file)
    ]
    found = find_truncation(changelog.io, candidates, planned.shape)
    if found is None or found.truncation != last:
        raise Invalid(
            f"{name}: its commit {last.commit} contained a truncation of the source, and the mirror was started "
            "without the events before it; but the changelog was rolled back to before that commit, or the settings "
            "now read that row differently. Undo that, then `icemirror resume`; or, if it is intended, "
            f"{REBUILD}."
        )


def stop_at_truncation(planned: TablePlan) -> None:
    """Raise at a truncation that a rebuild by policy would follow although `on_truncate` is `stop`.

    Compares sequences alone: compaction of the changelog moves followed truncations to later commits.
    """
    last = find_truncation(planned.changelog.io, _waiting_files(planned), planned.shape)
    cursor = planned.replaces.cursor if planned.replaces else None
    followed = cursor.source.truncated if cursor else None
    if last is not None and (followed is None or last.truncation.sequence > followed.sequence):
        raise Invalid(describe_truncation(planned.shape, last.path, last.truncation.row))


def _waiting_files(planned: TablePlan) -> Sequence[ChangelogFile]:
    return [file for slice_ in planned.slices for file in slice_.files]


def _diverged(table: TableSettings, shape: ChangelogShape, found: LocatedTruncation) -> Diverged:
    return Diverged(
        table, DivergenceCause.SOURCE_TRUNCATED, describe_truncation(shape, found.path, found.truncation.row)
    )


def _is_unmerged(truncation: Truncation, source: CursorSource) -> bool:
    """Whether the file with the truncation is yet to be merged."""
    if truncation.commit != source.sequence_number:
        return truncation.commit > source.sequence_number
    return source.files_done is not None and truncation.file >= source.files_done


def _start_from(planned: TablePlan, slice_: Slice, truncation: Truncation) -> tuple[TablePlan, Slice]:
    """Ignore everything before this truncation from now on."""
    shape = replace(planned.shape, followed_truncation=truncation)
    return replace(planned, shape=shape), Slice(slice_.files, slice_.cursor.with_truncation(truncation))


def _is_delivered_again(planned: TablePlan, slice_: Slice, unmerged: Truncation) -> bool:
    """Whether a truncation is the followed one, or deletes no more: no event lies between the two."""
    shape, known = planned.shape.without_truncations(), planned.shape.followed_truncation
    if known is None or known.sequence != unmerged.sequence:
        return False
    try:
        merged = [file for file in merged_files(planned) if file.sequence_number >= known.commit]
    except Invalid:  # the changelog no longer shows what was merged
        return False
    sequence = np.array(known.sequence, dtype=np.uint64)
    for file in (*merged, *slice_.files):
        events = read_changes(planned.changelog.io, file, 0, replace(shape, followed_truncation=known))
        between = events_before(unmerged, events.sequence, events.row, file)
        if bool((between & (events.sequence == sequence).all(axis=1)).any()):
            return False
    return True
