"""Decides which truncation of the source a merge applies, and which one requires a rebuild.

A mirror that is built from the beginning skips the events before the last truncation, so only the last truncation costs
a scan. An existing mirror has rows from before: only a rebuild is free of them, unless the truncation was applied
already and is delivered again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from icemirror.errors import REBUILD_ADVICE, Invalid, Transient
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource, Truncation
from spark_job.changelog.read_events import read_events
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import (
    LocatedTruncation,
    describe_truncation,
    events_before,
    find_truncation,
    is_new_truncation,
)
from spark_job.plan.backlog import merged_files
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan


def apply_truncation(
    table_plan: TablePlan, slice_: Slice, unmerged: LocatedTruncation | None
) -> tuple[TablePlan, Slice] | Diverged:
    """Return the table and its slice with the truncation to apply, or a divergence if the mirror has older rows.

    `unmerged`: the last truncation in the slice, if an attempt to merge it stopped there. With `on_truncate: stop` the
    first merge is not scanned: it stops when it reads the truncation.
    """
    shape, mirror = table_plan.shape, table_plan.mirror
    if not shape.truncate_operations or shape.is_keyless:
        return table_plan, slice_
    if mirror is not None and mirror.cursor is not None:
        if unmerged is None or not is_new_truncation(unmerged.truncation, shape.applied_truncation):
            return table_plan, slice_
        if not _is_delivered_again(table_plan, slice_, unmerged.truncation):
            return _diverged(table_plan.table_settings, shape, unmerged)
        return _with_truncation(table_plan, slice_, unmerged.truncation)
    if table_plan.table_settings.on_truncate == "stop" and not table_plan.is_stage:
        return table_plan, slice_
    last = find_truncation(table_plan.changelog.io, table_plan.unmerged_files, shape)
    if last is None:
        return table_plan, slice_
    if mirror is not None and mirror.live_rows and not table_plan.is_stage:
        return _diverged(table_plan.table_settings, shape, last)  # an adopted mirror has rows from before
    return _with_truncation(table_plan, slice_, last.truncation)


def find_unmerged_truncation(table_plan: TablePlan) -> Diverged | None:
    """Return a divergence if an unmerged file contains a truncation that the mirror has not applied."""
    shape, mirror = table_plan.shape, table_plan.mirror
    if table_plan.is_stage or mirror is None or mirror.head is None:
        return None
    last = find_truncation(table_plan.changelog.io, table_plan.unmerged_files, shape)
    if last is None or not is_new_truncation(last.truncation, shape.applied_truncation):
        return None
    return _diverged(table_plan.table_settings, shape, last)


def require_truncation_in_changelog(table_plan: TablePlan) -> None:
    """Refuse a mirror that was built from a truncation which the changelog no longer contains.

    A truncation before the cursor stays applied. In format v1 commits have no numbers, so it is unknown whether a
    truncation is merged.
    """
    source = table_plan.mirror.cursor.source if table_plan.mirror and table_plan.mirror.cursor else None
    applied = table_plan.shape.applied_truncation
    if source is None or applied is None or not applied.commit or not _is_unmerged(applied, source):
        return
    name, changelog = table_plan.table_settings.changelog_id, table_plan.changelog
    if changelog.metadata.next_sequence_number() <= applied.commit:
        raise Transient(
            f"{name}: the catalog returned a state before commit {applied.commit}; a later poll may return a newer one."
        )
    candidates = [
        file
        for file in table_plan.unmerged_files
        if (file.sequence_number, file.index_in_commit) == (applied.commit, applied.file)
    ]
    located = find_truncation(changelog.io, candidates, table_plan.shape)
    if located is None or located.truncation != applied:
        raise Invalid(
            f"{name}: its commit {applied.commit} contained a truncation of the source, and the mirror was started "
            "without the events before it; but the changelog was rolled back to before that commit, or the settings "
            "now read that row differently. Undo that, then `icemirror resume`; or, if it is intended, "
            f"{REBUILD_ADVICE}."
        )


def refuse_truncation_in_resync(table_plan: TablePlan) -> None:
    """Raise at a truncation that a rebuild by policy would apply although `on_truncate` is `stop`.

    Compares sequences alone: compaction of the changelog moves applied truncations to later commits.
    """
    last = find_truncation(table_plan.changelog.io, table_plan.unmerged_files, table_plan.shape)
    cursor = table_plan.replaced_mirror.cursor if table_plan.replaced_mirror else None
    applied = cursor.source.truncated if cursor else None
    if last is not None and (applied is None or last.truncation.sequence > applied.sequence):
        raise Invalid(describe_truncation(table_plan.shape, last.path, last.truncation.row))


def _diverged(table_settings: TableSettings, shape: ChangelogShape, located: LocatedTruncation) -> Diverged:
    details = describe_truncation(shape, located.path, located.truncation.row)
    return Diverged(table_settings, DivergenceCause.SOURCE_TRUNCATED, details)


def _is_unmerged(truncation: Truncation, source: CursorSource) -> bool:
    """Return whether the file with the truncation is after the cursor."""
    if truncation.commit != source.sequence_number:
        return truncation.commit > source.sequence_number
    return source.files_done is not None and truncation.file >= source.files_done


def _with_truncation(table_plan: TablePlan, slice_: Slice, truncation: Truncation) -> tuple[TablePlan, Slice]:
    """Return the plan and the slice that skip events before this truncation."""
    shape = replace(table_plan.shape, applied_truncation=truncation)
    return replace(table_plan, shape=shape), Slice(slice_.files, slice_.cursor.with_truncation(truncation))


def _is_delivered_again(table_plan: TablePlan, slice_: Slice, unmerged: Truncation) -> bool:
    """Return whether a truncation repeats the applied one: same sequence, and no event between the two."""
    shape, applied = table_plan.shape.without_truncations(), table_plan.shape.applied_truncation
    if applied is None or applied.sequence != unmerged.sequence:
        return False
    try:
        files_since = [file for file in merged_files(table_plan) if file.sequence_number >= applied.commit]
    except Invalid:  # the changelog's history is incomplete, so an event between the two cannot be excluded
        return False
    sequence = np.array(applied.sequence, dtype=np.uint64)
    for file in (*files_since, *slice_.files):
        events = read_events(table_plan.changelog.io, file, 0, replace(shape, applied_truncation=applied))
        is_between = events_before(unmerged, events.sequence, events.row, file)
        if bool((is_between & (events.sequence == sequence).all(axis=1)).any()):
            return False
    return True
