"""Which truncation of the source a merge starts from, and where it must not go on.

What is built from the beginning is built without the events before the last truncation of all that is to be merged,
so that many truncations cost no more than one. A mirror that is there has rows of before: only a rebuild is free of
them, unless the truncation was told before, and comes once more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from icemirror.cursor import Source, Truncation
from icemirror.errors import REBUILD, Invalid, Transient
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.truncations import (
    are_before,
    find_truncation,
    is_news,
    known_truncation,
    not_followed,
)
from spark_job.planning.plan import Slice
from spark_job.planning.stock import Prepared


def follow_truncation(prepared: Prepared, part: Slice) -> tuple[Prepared, Slice]:
    """A table and its next slice, with the truncation that counts; raises `SourceTruncated` where one is known ahead.

    A person who wants to be asked is asked: then the merge itself stops there.
    """
    shape, mirror, io = prepared.shape, prepared.mirror, prepared.changelog.io
    if not shape.truncates or shape.is_keyless:
        return prepared, part
    if mirror is not None and mirror.cursor is not None:
        ahead = known_truncation(part.files, shape)
        if ahead is None or not is_news(ahead.truncation, shape.truncated):
            return prepared, part
        if not _is_told_again(prepared, part, ahead.truncation):
            raise not_followed(shape, ahead.path, ahead.truncation.row)
        return _from(prepared, part, ahead.truncation)
    if prepared.settings.on_truncate == "stop" and not prepared.staged:
        return prepared, part
    last = find_truncation(io, [file for one in prepared.slices for file in one.files], shape)
    if last is None:
        return prepared, part
    if mirror is not None and mirror.live_rows and not prepared.staged:
        raise not_followed(shape, last.path, last.truncation.row)  # it was adopted, and has rows of before
    return _from(prepared, part, last.truncation)


def require_truncation_ahead(prepared: Prepared) -> None:
    """Refuses a truncation by which the mirror is built, but of which the changelog tells no more.

    What is behind the cursor stays followed. Format v1 numbers no commits, so nobody knows what is ahead there.
    """
    source = prepared.mirror.cursor.source if prepared.mirror and prepared.mirror.cursor else None
    last = prepared.shape.truncated
    if source is None or last is None or not last.commit or not _is_ahead(last, source):
        return
    name, changelog = prepared.settings.changelog_id, prepared.changelog
    if changelog.metadata.next_sequence_number() <= last.commit:
        raise Transient(
            f"{name}: the catalog shows it as it was before its commit {last.commit}; a later look may show more."
        )
    waiting = [file for part in prepared.slices for file in part.files]
    there = [one for one in waiting if (one.sequence_number, one.place) == (last.commit, last.file)]
    told = find_truncation(changelog.io, there, prepared.shape)
    if told is None or told.truncation != last:
        raise Invalid(
            f"{name}: its commit {last.commit} told of a truncation of the source, and the mirror was begun without "
            "what was before that; but the changelog was rolled back to before it, or the settings take that row for "
            "something else by now. Put that back to where it was, then `icemirror resume`; or, if that is how it "
            f"shall be, {REBUILD}."
        )


def stop_at_truncation(prepared: Prepared) -> None:
    """Where nobody asked for a rebuild, and truncations are to be asked about: refuses to follow one by it.

    By the sequence alone: who compacts a changelog moves what the mirror has followed to a later commit.
    """
    files = [file for part in prepared.slices for file in part.files]
    last = find_truncation(prepared.changelog.io, files, prepared.shape)
    standing = prepared.replaces.cursor if prepared.replaces else None
    followed = standing.source.truncated if standing else None
    if last is not None and (followed is None or last.truncation.sequence > followed.sequence):
        raise not_followed(prepared.shape, last.path, last.truncation.row)


def _is_ahead(truncation: Truncation, source: Source) -> bool:
    """Whether the file that tells of it is yet to be merged."""
    if truncation.commit != source.sequence_number:
        return truncation.commit > source.sequence_number
    return source.files_done is not None and truncation.file >= source.files_done


def _from(prepared: Prepared, part: Slice, truncation: Truncation) -> tuple[Prepared, Slice]:
    """Nothing before this truncation counts from now on."""
    shape = replace(prepared.shape, truncated=truncation)
    return replace(prepared, shape=shape), Slice(part.files, part.cursor.truncated_at(truncation))


def _is_told_again(prepared: Prepared, part: Slice, ahead: Truncation) -> bool:
    """Whether a truncation is the one that was followed, or takes away no more: no event lies between the two."""
    shape, known = prepared.shape.without_truncations(), prepared.shape.truncated
    if known is None or known.sequence != ahead.sequence:
        return False
    try:
        merged = [file for file in prepared.merged_files() if file.sequence_number >= known.commit]
    except Invalid:  # nobody knows what was merged
        return False
    told = np.array(known.sequence, dtype=np.uint64)
    for file in (*merged, *part.files):
        events = read_changes(prepared.changelog.io, file, 0, replace(shape, truncated=known))
        between = are_before(ahead, events.sequence, events.row, file)
        if bool((between & (events.sequence == told).all(axis=1)).any()):
            return False
    return True
