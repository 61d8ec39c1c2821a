"""Puts small data files together: read → check against the index → write → index → commit, and no row changes.

The commit is a `replace`, which those who follow the mirror's changes pass by. It is made on the head that was read, as
any other; if somebody else was quicker it is given up, and the next merge finds the files again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from icemirror.errors import REBUILD, CommitUnknown, Contested, Corrupt
from icemirror.telemetry.logs import get_log
from spark_job.commit_root import FileChanges, check_counts, commit_root
from spark_job.compaction.choose import choose_small
from spark_job.compaction.move_rows import MovedRows, move_rows
from spark_job.dead_files import deletes_only_of
from spark_job.iceberg.discard import discard
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.key_index.root import IndexedFile, Root, forget_files
from spark_job.recount import recount
from spark_job.shape import ChangelogShape
from spark_job.source_rows import TooMuch

log = get_log(__name__)


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: so many data files became so many, and the mirror's index after it."""

    files_before: int
    files_after: int
    rows: int
    root: Root


def find_due(mirror: Mirror) -> tuple[LiveFile, ...]:
    """The files to put together next. None where the index does not know the head, or has to be rebuilt."""
    return _choose(mirror, _live(mirror))


def compact(mirror: Mirror, shape: ChangelogShape, location: str, run_id: str) -> Compacted | None:
    """Puts files together in one commit; None where none are due."""
    began = time.perf_counter()
    live = _live(mirror)
    chosen = _choose(mirror, live)
    if not chosen or mirror.root is None or mirror.cursor is None:
        return None
    io, written = mirror.table.io, list[str]()
    try:
        moved = move_rows(mirror, mirror.root, shape, chosen, location, written)
        gone = {file.path for file in chosen}
        kept = {path: file for path, file in live.items() if path not in gone}
        _check_moved(moved, chosen)
        root = next_root(mirror, mirror.root, moved, gone)
        check_counts(root, kept, moved.data_files, {})
        files = FileChanges(
            data_files=moved.data_files,
            replaced=deletes_only_of(chosen, kept.values()),
            removed=chosen,
            same_rows=True,
        )
        commit_root(mirror, root, files, mirror.cursor, run_id, location, {})
    except (CommitUnknown, Contested):
        raise
    except TooMuch:
        log.info("small data files left as they are: their rows take too much memory", files=len(chosen))
        return None
    except Exception:
        discard(io, written)
        raise
    done = Compacted(len(chosen), len(moved.data_files), moved.segment.entries, root)
    log.info(
        "small data files put together",
        files=done.files_before,
        into=done.files_after,
        rows=done.rows,
        seconds=round(time.perf_counter() - began, 4),
    )
    return done


def _check_moved(moved: MovedRows, chosen: Sequence[LiveFile]) -> None:
    """Every live row of the files that go is in one that comes."""
    expected = sum(file.rows - file.deleted for file in chosen)
    found = sum(file.record_count for file in moved.data_files), moved.segment.entries
    if found != (expected, expected):
        raise Corrupt(
            f"{chosen[0].path} and {len(chosen) - 1} other files have {expected} live rows, but {found[0]} were moved "
            f"and {found[1]} indexed; nothing was committed. If it happens again, {REBUILD}."
        )


def _choose(mirror: Mirror, live: Mapping[str, LiveFile]) -> tuple[LiveFile, ...]:
    metadata = mirror.table.metadata
    with_row_ids = metadata.format_version >= 3
    return choose_small(live.values(), metadata.default_spec_id, with_row_ids=with_row_ids)


def _live(mirror: Mirror) -> Mapping[str, LiveFile]:
    """The data files as the index knows them; none where it does not know the head, or has to be rebuilt."""
    if mirror.root is None or mirror.cursor is None or mirror.foreign:
        return {}
    return recount(mirror.table.io, live_files(mirror.table.io, mirror.head), mirror.root)


def next_root(mirror: Mirror, before: Root, moved: MovedRows, gone: Set[str]) -> Root:
    """The root after it: the moved rows in a run of their own, the files that they were in gone. Pure."""
    files = [
        file.model_copy(update={"live": 0, "gone": True}) if file.path in gone else file
        for file in before.files
    ]
    files += [
        IndexedFile(path=file.file_path, rows=file.record_count, live=file.record_count)
        for file in moved.data_files
    ]
    run = {"run": before.next_run, "written_at": int(time.time() * 1000)}
    root = before.model_copy(
        update={
            "snapshot_id": mirror.table.metadata.new_snapshot_id(),
            "epoch": mirror.epoch + 1,
            "segments": (moved.segment.model_copy(update=run), *before.segments),
            "files": tuple(files),
            "next_run": before.next_run + 1,
        }
    )
    return forget_files(root)
