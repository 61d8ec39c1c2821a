"""Follows a changelog on where a mirror has lost its track, by building it anew without anybody asking.

    merge ─► the cursor leads nowhere ─► the settings say rebuild ─► one step of a rebuild ─► … ─► swap ─► merge

Nothing but the tables says whether that is needed, so every step begins with a merge that fails to plan. The stage is
kept under a name that follows from what is to be replaced by what: whoever looks next, after a crash or in another
process, goes on with it. Two at once lose time, not rows: both stages are whole, and one swap meets the mirror's head.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Conflict, Corrupt, IcemirrorError
from icemirror.result import Advance, Rebuilt, Staged
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import find_truncation, is_news
from spark_job.files.discard import discard
from spark_job.iceberg.failures import named_for
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.key_index.index_location import index_location
from spark_job.lost_track import ChangelogMadeAnew, CursorExpired, SourceTruncated, is_rebuilt
from spark_job.pipeline import Pipeline
from spark_job.planning.stock import Prepared
from spark_job.replays.rebuild import StageDamaged, advance_stage, survey_rebuild
from spark_job.staging.stage import SUFFIX, Place

_MOST_ATTEMPTS = 8

log = get_log(__name__)


def advance(pipeline: Pipeline, table: TableSettings) -> Advance:
    """Merges the next slice of a table, or does the next step of building it anew, by policy."""
    for _ in range(_MOST_ATTEMPTS):
        try:
            return pipeline.advance(table)
        except (ChangelogMadeAnew, CursorExpired, SourceTruncated) as lost:
            if not is_rebuilt(table, lost):
                raise
            reason = str(lost)
        except Corrupt as error:
            if not _is_lost(pipeline, table):
                raise
            log.info("the changelog was made anew during the merge, looking again", reason=str(error))
            continue
        step = _rebuild(pipeline, table, reason)
        if step is not None:
            return step
    raise Conflict(
        f"{table.name}: mirror or changelog moved in every of {_MOST_ATTEMPTS} attempts; who else writes to them?"
    )


def _is_lost(pipeline: Pipeline, table: TableSettings) -> bool:
    """Whether the track was lost meanwhile: with the old changelog its files are gone, too."""
    try:
        pipeline.prepare(table)
    except (ChangelogMadeAnew, CursorExpired):
        return True
    return False


def take_stock(pipeline: Pipeline, table: TableSettings) -> Prepared:
    """As `Pipeline.prepare`; where the mirror is to be built anew, by policy, what that will merge."""
    try:
        return pipeline.prepare(table)
    except (ChangelogMadeAnew, CursorExpired) as lost:
        if not is_rebuilt(table, lost):
            raise
    return replace(survey_rebuild(pipeline, table), staged=True)


def look_ahead(pipeline: Pipeline, table: TableSettings) -> Prepared:
    """As `take_stock`, with a look for a truncation among what waits: the mirror is built anew for that, by policy."""
    prepared = take_stock(pipeline, table)
    mirror, shape = prepared.mirror, prepared.shape
    if prepared.staged or mirror is None or mirror.head is None or table.on_truncate == "stop":
        return prepared
    ahead = find_truncation(
        prepared.changelog.io, [file for part in prepared.slices for file in part.files], shape
    )
    if ahead is None or not is_news(ahead.truncation, shape.truncated):
        return prepared
    return replace(survey_rebuild(pipeline, table), staged=True)


def _rebuild(pipeline: Pipeline, table: TableSettings, reason: str) -> Staged | Rebuilt | None:
    """One more step; None where mirror or changelog moved meanwhile, so that all is to be looked at again."""
    loaded = pipeline.catalogs.load_mirror(table)
    if loaded is None:
        return None
    with named_for(table.name):
        mirror = read_mirror(loaded, table.name)
        changelog = pipeline.load_changelog(table, mirror)
    place = _place(pipeline, mirror, changelog, reason)
    try:
        step = advance_stage(pipeline, table, loaded, place)
    except CommitUnknown:
        raise
    except StageDamaged:
        discard(loaded.io, [place.path] if place.path else [])  # else the next look finds it again
        raise
    except IcemirrorError as error:
        # Whoever swapped the same stage in meanwhile has tidied it up; what the changelog was may be purged.
        before = loaded.metadata.current_snapshot_id, changelog.metadata.table_uuid
        if not isinstance(error, Conflict | CursorExpired) and before == _seen(pipeline, table, mirror):
            raise
        log.info("mirror or changelog moved before the swap, looking again", reason=str(error))
        return None
    if step.position is None:
        return Staged(events=step.progress.events, of_events=step.progress.of_events, left=step.left)
    return Rebuilt(events=step.progress.events, position=step.position)


def _seen(pipeline: Pipeline, table: TableSettings, mirror: Mirror) -> tuple[int | None, UUID]:
    """The mirror's head, and which changelog there is."""
    seen = pipeline.catalogs.load_mirror(table)
    head = seen.metadata.current_snapshot_id if seen else None
    return head, pipeline.load_changelog(table, mirror).metadata.table_uuid


def _place(pipeline: Pipeline, mirror: Mirror, changelog: Table, reason: str) -> Place:
    """Always the same for this mirror, as far as it has merged, and the changelog that it shall follow from now on."""
    merged = mirror.cursor.model_dump(mode="json") if mirror.cursor else None
    told = json.dumps([str(changelog.metadata.table_uuid), merged])
    location = index_location(mirror.table.metadata, pipeline.settings.index_location)
    return Place(None, f"{location}/{sha256(told.encode()).hexdigest()[:32]}{SUFFIX}", reason)
