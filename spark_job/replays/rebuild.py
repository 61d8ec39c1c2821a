"""Builds a mirror anew from the whole changelog, out of sight, and puts it in the place of the old one in one commit.

    begin ─► merge a slice ─► merge a slice … ─► not behind the mirror any more ─► swap
             into the stage                        (else: another slice)            ONE snapshot on the mirror

Readers see the old rows or the new ones. What others wrote to the mirror is not in the changelog, and goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from icemirror.crash import reach
from icemirror.cursor import Cursor, Source
from icemirror.errors import (
    CommitUnknown,
    Conflict,
    Corrupt,
    IcemirrorError,
    Invalid,
    Transient,
)
from icemirror.result import Position
from icemirror.settings import TableSettings
from icemirror.state.replay import ReplayProgress, ReplayStep
from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import is_news
from spark_job.columns.field_map import load_map
from spark_job.files.discard import discard
from spark_job.files.round_trips import for_each
from spark_job.files.written import written_for_commit
from spark_job.iceberg.failures import named_for
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.mirror import (
    FIELD_MAP,
    FORMER_SOURCES,
    REBUILDS,
    REPLAY,
    SOURCE,
    Mirror,
    greatest_epoch,
    read_mirror,
    remember_root,
    stamp,
)
from spark_job.iceberg.swap import Swap
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.key_index.index_location import index_location
from spark_job.key_index.root import Root, root_path, write_root
from spark_job.lost_track import CursorExpired, SourceTruncated
from spark_job.pipeline import Pipeline
from spark_job.planning.left import left_after
from spark_job.planning.stock import Prepared, plan_table
from spark_job.planning.task import Task, next_task
from spark_job.planning.truncated import stop_at_truncation
from spark_job.replays.made_with import made_with
from spark_job.replays.reanchor import reanchored
from spark_job.staging.stage import Place, Stage, begin_stage, find_stage, fulfilled
from spark_job.staging.stage_columns import built_columns
from spark_job.staging.stage_files import left_over
from spark_job.unchanged.delete_mode import lacks_flagged, require_unflagged

_MOST_ATTEMPTS = 8
_REBUILDS_KEPT = 16

log = get_log(__name__)


class StageDamaged(Corrupt):
    """What was built cannot be swapped in, and will not be better later: it has to be built again."""


def rebuild_step(
    pipeline: Pipeline, table: TableSettings, request: str, progress: ReplayProgress | None
) -> ReplayStep:
    """Merges one more slice into the stage of this request, or swaps it in, which happens once for a request."""
    before = progress or ReplayProgress()
    for _ in range(_MOST_ATTEMPTS):
        mirror = pipeline.catalogs.load_mirror(table)
        if mirror is None or mirror.current_snapshot() is None:
            return ReplayStep(before, done=True)  # the next merge builds it
        if _is_swapped(mirror, request):
            return ReplayStep(before, done=True, rebuilt=True)
        try:
            return advance_stage(pipeline, table, mirror, Place(request, before.mark))
        except CommitUnknown:
            raise
        except IcemirrorError as error:
            # Whoever swapped the same stage in meanwhile has tidied it up.
            seen = pipeline.catalogs.load_mirror(table)
            if not isinstance(error, Conflict) and not (seen and _is_swapped(seen, request)):
                raise
            log.info("the mirror moved before the swap, looking again", reason=str(error))
    raise Conflict(
        f"{table.name}: the mirror moved before every of {_MOST_ATTEMPTS} swaps; who else writes to it?"
    )


def advance_stage(pipeline: Pipeline, table: TableSettings, mirror: Table, place: Place) -> ReplayStep:
    """Merges one more slice into the stage that is kept there, or swaps it in on this very head of the mirror."""
    with named_for(table.name):
        standing = _standing(mirror, table.name)
        stage, prepared = _find_stage(pipeline, table, mirror, standing, place)
        if _is_behind(pipeline, standing, prepared, stage):
            return _merge(pipeline, table, mirror, stage, standing)
        position = _swap(pipeline, table, mirror, stage, prepared, _followed(mirror, standing))
    after = ReplayProgress(stage.events, stage.events, changed_rows=position.live_rows)
    return ReplayStep(after, done=True, position=position, rebuilt=True)


def _is_swapped(mirror: Table, request: str) -> bool:
    """By an attempt before this one, the answer to which was lost; its snapshot may have expired since."""
    return request in fulfilled(mirror)


def _standing(mirror: Table, name: str) -> Mirror | None:
    """The mirror as it is; None where it cannot be followed on, which is no reason not to rebuild it."""
    if SOURCE not in mirror.metadata.properties:
        read_mirror(mirror, name)  # refuses a table that is not ours
    try:
        return read_mirror(mirror, name)
    except (Invalid, Corrupt) as error:
        log.warning("the mirror cannot be read; it is rebuilt all the same", reason=str(error))
        return None


def _find_stage(
    pipeline: Pipeline, table: TableSettings, mirror: Table, standing: Mirror | None, place: Place
) -> tuple[Stage, Prepared]:
    """The stage where it was left, and what it has not merged yet; a new one where that cannot be gone on with."""
    found = find_stage(mirror, place, made_with(table))
    if found is not None:
        try:
            prepared = _survey(pipeline, table, found, standing)
            _require_same_deletes(table, prepared)
            if prepared.mirror is not None and not prepared.mirror.lost:
                return found, prepared
        except Invalid as error:
            # The changelog was made anew, or what the stage had to merge next has expired.
            log.warning("the rebuild cannot go on, and begins anew", reason=str(error))
    stage = begin_stage(mirror, place, made_with(table))
    prepared = _survey(pipeline, table, stage, standing)
    prepared.require_same_columns()
    if place.by_policy and table.on_truncate == "stop":
        stop_at_truncation(prepared)
    head = prepared.changelog.current_snapshot()
    if head is None:
        _require_that_it_may_be_empty(prepared, _followed(mirror, standing), place)
    reach("stage-begun")
    log.info("rebuilding the mirror out of sight", replay=stage.request, reason=place.reason)
    return replace(stage, goal=head.sequence_number or 0 if head else 0), prepared


def _require_same_deletes(table: TableSettings, staged: Prepared) -> None:
    """What was built so far must have been built with the same delete_mode."""
    require_unflagged(table, staged.mirror)
    if staged.mirror is not None and lacks_flagged(table, staged.mirror):
        raise Invalid(f"{table.name}: what was built so far lacks the rows that delete_mode: soft flags")


def _require_that_it_may_be_empty(prepared: Prepared, followed: Sequence[str], place: Place) -> None:
    """Nothing was written yet to a changelog that was made anew: then, by policy, the mirror becomes empty, too."""
    name = prepared.settings.changelog_id
    if str(prepared.changelog.metadata.table_uuid) == followed[-1]:
        raise Transient(f"{name}: the catalog shows it without the events that were merged of it.")
    if not place.by_policy:
        raise Invalid(f"{name}: has no events, so nothing can be built from it; the mirror stays as it is.")


def _followed(mirror: Table, standing: Mirror | None) -> list[str]:
    """The changelog that the mirror was built from, and last the one of which it merged: after a rollback another."""
    built = mirror.metadata.properties.get(SOURCE, "").rpartition(" ")[2]
    return [built, *([standing.cursor.source.uuid] if standing and standing.cursor else ())]


def _read_stage(stage: Stage, name: str) -> Mirror:
    table = stage.table
    return read_mirror(table, name) if table.current_snapshot() is not None else _emptied(table)


def _emptied(table: Table) -> Mirror:
    """As if nothing had been merged yet."""
    return Mirror(table, None, None, 0, None, load_map(table.metadata.properties[FIELD_MAP]))


def survey_rebuild(pipeline: Pipeline, table: TableSettings) -> Prepared:
    """What a rebuild that begins now would merge; refuses what no rebuild of this mirror can do."""
    mirror = pipeline.catalogs.load_mirror(table)
    is_ours = mirror is not None and FIELD_MAP in mirror.metadata.properties
    with named_for(table.name):
        prepared = pipeline.survey(table, _emptied(mirror) if mirror is not None and is_ours else None)
        prepared.require_same_columns()
    return prepared


def _survey(pipeline: Pipeline, table: TableSettings, stage: Stage, standing: Mirror | None) -> Prepared:
    """What the stage has not merged yet; the changelog is loaded after the mirror was."""
    built = _read_stage(stage, table.name)
    try:
        return replace(pipeline.survey(table, built), staged=True, replaces=standing)
    except CursorExpired as error:
        moved = reanchored(built, pipeline.load_changelog(table, built)) if not table.append_only else None
        if moved is None:
            raise
        log.info("the rebuild goes on from what is left of the changelog", reason=str(error))
    return replace(pipeline.survey(table, moved), staged=True, replaces=standing)


def _is_behind(pipeline: Pipeline, standing: Mirror | None, staged: Prepared, stage: Stage) -> bool:
    """Whether the mirror has merged something that the stage has not: a swap would turn it back.

    Where the mirror cannot be followed on, all counts that was there when the stage was begun, or is merged. A cache
    or a replica that shows fewer commits than that is no reason to swap.
    """
    waiting = {file.path for part in staged.slices for file in part.files}
    cursor = staged.mirror.cursor if staged.mirror else None
    if cursor is None:
        return bool(staged.slices)  # even one without files: its commit is what can take the mirror's place
    if waiting and _lacks_truncation(standing, cursor.source):
        return True
    try:
        if standing is not None:
            known = replace(standing, former=frozenset())  # who asks for an old table means it
            slices, _ = plan_table(staged.settings, staged.changelog, known, pipeline.limits)
            return not waiting <= {file.path for part in slices for file in part.files}
    except Invalid as error:
        log.info("the mirror cannot be followed on", reason=str(error))
    merged = standing.cursor.source if standing and standing.cursor else cursor.source
    goal = max(stage.goal, merged.sequence_number) if merged.uuid == cursor.source.uuid else stage.goal
    if 0 < staged.changelog.metadata.next_sequence_number() <= goal:
        raise Transient(
            f"{staged.settings.changelog_id}: the catalog shows it as it was before its commit {goal}; a later look "
            "may show more."
        )
    return bool(waiting) and not _has_passed(cursor.source, goal)


def _lacks_truncation(standing: Mirror | None, source: Source) -> bool:
    """Whether the stage is without what came with the truncation for which it is built: readers see both, or none."""
    truncated, known = source.truncated, standing.cursor.source if standing and standing.cursor else None
    followed = known.truncated if known and known.uuid == source.uuid else None
    if truncated is None or not is_news(truncated, followed):
        return False
    return not _has_passed(source, truncated.commit)


def _up_to_goal(pipeline: Pipeline, staged: Prepared, goal: int) -> Prepared:
    """What was there when the stage was begun, first: a truncation that came since is for the rebuild after this."""
    if not staged.shape.truncates or not goal:
        return staged
    slices, _ = plan_table(staged.settings, staged.changelog, staged.mirror, pipeline.limits, up_to=goal)
    cursor = staged.mirror.cursor if staged.mirror else None
    if all(not part.files and part.cursor == cursor for part in slices):  # all of that is staged
        return staged
    now, all_that_wait = (
        {file.path for part in parts for file in part.files} for parts in (slices, staged.slices)
    )
    return replace(staged, slices=slices, beyond=frozenset(all_that_wait - now))


def _has_passed(source: Source, goal: int) -> bool:
    """Tables of format v1 number no commits: then nothing may wait."""
    return goal > 0 and (
        source.sequence_number > goal or (source.sequence_number == goal and source.files_done is None)
    )


def _merge(
    pipeline: Pipeline, table: TableSettings, mirror: Table, stage: Stage, standing: Mirror | None
) -> ReplayStep:
    """One more slice into the stage."""
    if stage.before is not None:  # the row names a later one by now
        discard(mirror.io, [stage.before])

    def plan() -> Task:
        return next_task(_up_to_goal(pipeline, _survey(pipeline, table, stage, standing), stage.goal))

    try:
        done = pipeline.carry_out(table, plan)
    except SourceTruncated as error:
        discard(mirror.io, [stage.path] if stage.path else [])  # else the next look goes on with it
        raise Conflict(f"{table.name}: the rebuild begins anew. {error}") from error
    part = done.task.part
    if part is None:
        raise Conflict(f"{table.name}: nothing is left for the stage to merge")
    reach("stage-merged")
    location = index_location(mirror.metadata, pipeline.settings.index_location)
    kept = stage.save(location, part.events)
    reach("stage-kept")
    left = left_after(done.task.prepared, part)
    progress = ReplayProgress(events=kept.events, of_events=kept.events + left.events, mark=kept.path)
    log.info("slice staged", replay=stage.request, events=progress.events, of_events=progress.of_events)
    return ReplayStep(progress, done=False, left=left)


def _swap(
    pipeline: Pipeline,
    table: TableSettings,
    mirror: Table,
    stage: Stage,
    prepared: Prepared,
    followed: Sequence[str],
) -> Position:
    """The stage in the place of what the mirror holds, on the very head that it was compared with."""
    built, io = prepared.mirror, mirror.io
    if built is None or (built.head is not None and (built.root is None or built.cursor is None)):
        raise Invalid(f"{table.name}: nothing was built that could take the mirror's place")
    cursor = built.cursor or Cursor(sources=())  # of a changelog to which nothing was written yet
    snapshot_id = mirror.metadata.new_snapshot_id()
    location = index_location(mirror.metadata, pipeline.settings.index_location)
    epoch = greatest_epoch(mirror.metadata) + 1
    nothing = Root(snapshot_id=snapshot_id, epoch=epoch, segments=(), files=())
    root = (built.root or nothing).model_copy(update={"snapshot_id": snapshot_id, "epoch": epoch})
    path = root_path(location, root)
    columns = built_columns(mirror.metadata, built.table.metadata)
    live = list(live_files(io, built.head).values())
    _require_files(io, table.name, live, root)
    with written_for_commit(io, [path]) as written:
        write_root(io, path, root)
        reach("swap-root-written")
        stamped = stamp(mirror, root, path, cursor, pipeline.run_id, changes_files=True, leaves_none=not live)
        swap = Swap(
            table=mirror,
            head=mirror.current_snapshot(),
            snapshot_id=snapshot_id,
            data_files=(),
            delete_files=(),
            summary={**stamped.summary, REPLAY: stage.request},
            schema=columns.schema,
            properties={
                **columns.properties,
                **stamped.properties,
                **_new_source(mirror, prepared, followed),
                REBUILDS: " ".join([*fulfilled(mirror), stage.request][-_REBUILDS_KEPT:]),
            },
            staged=known_manifests(io, built.head) if built.head else (),
            written=written,
        )
        reach("swap")
        swap.commit()
        reach("swapped")
    remember_root(path, root)
    log.info("mirror rebuilt", replay=stage.request, live_rows=root.live_rows, events=stage.events)
    _clean_up(stage, mirror, path)
    return Position(cursor=built.cursor, live_rows=root.live_rows, index_bytes=root.bytes)


def _new_source(mirror: Table, prepared: Prepared, followed: Sequence[str]) -> dict[str, str]:
    """From now on the mirror follows this changelog, and none that it followed before."""
    properties, now = mirror.metadata.properties, str(prepared.changelog.metadata.table_uuid)
    former = [*properties.get(FORMER_SOURCES, "").split(), *followed]
    told = {SOURCE: f"{prepared.settings.changelog_id} {now}"}
    if others := [one for one in dict.fromkeys(former) if one not in ("", now)]:
        told[FORMER_SOURCES] = " ".join(others[-_REBUILDS_KEPT:])
    elif FORMER_SOURCES in properties:
        told[FORMER_SOURCES] = ""
    return told


def _require_files(io: FileIO, name: str, live: Sequence[LiveFile], root: Root) -> None:
    """Nobody but the stage named its files until now, so a remover of orphans may have taken some of them."""
    paths = {file.path for file in live} | {one.path for file in live for one in file.deletes}
    wanted = sorted(paths | {segment.path for segment in root.segments})
    there = for_each(lambda path: io.new_input(path).exists(), wanted, wanted[0] if wanted else "")
    for path, exists in zip(wanted, there, strict=True):
        if not exists:
            raise StageDamaged(
                f"{name}: {path}, written for the rebuild, is gone; the mirror stays as it is. Somebody removes "
                "orphans that are younger than the rebuild: let them be older, then ask for it again (or, if nobody "
                "asked for it, `icemirror resume`)."
            )


def _clean_up(stage: Stage, mirror: Table, path: str) -> None:
    """What only the stage needed. A rebuild that is done does not fail because tidying up did."""
    try:
        discard(mirror.io, left_over(mirror.io, stage, path))
    except Exception as error:
        log.warning("files of the rebuild left", reason=f"{type(error).__name__}: {error}")
    reach("stage-removed")
