"""`maintain clean-orphans`: what is stored in a mirror's places, old enough, and named by nothing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from time import sleep
from urllib.parse import unquote

from pydantic import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icemirror.crash import reach
from icemirror.errors import Corrupt, Transient
from icemirror.result import OrphansResult
from icemirror.telemetry.logs import get_log
from spark_job.files.discard import discard
from spark_job.iceberg.listing import StoredFile, list_files
from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.iceberg.references import index_files, live_paths, manifests_of
from spark_job.key_index.index_location import index_location
from spark_job.maintenance.expire import require_own_files
from spark_job.maintenance.neighbours import METADATA, require_alone
from spark_job.maintenance.own_places import METADATA_PATH, is_below, named_places
from spark_job.staging.stage import SUFFIX, read_stage
from spark_job.staging.stage_files import named_by

_OURS = (".parquet", ".orc", ".avro", ".puffin", ".stats", *METADATA)
_SHOWN = 1000
_MOST_LOOKS = 5

log = get_log(__name__)


def clean_orphans(
    load: Callable[[], Table],
    name: str,
    *,
    older_than_seconds: float,
    configured_index: str | None = None,
    dry_run: bool = False,
) -> OrphansResult:
    """Deletes files that no snapshot, metadata file or index root names and that are older than the bound.

    The places are listed, and rebuilds under way looked for, before the table is loaded for the last time: what was
    committed meanwhile is known.
    """
    table = load()
    require_own_files(table.metadata, name)
    places, unlisted = places_of(table.metadata)
    index_place = index_location(table.metadata, configured_index)
    now = time.time() if dry_run else storage_time(table.io, index_place)
    stored = [file for place in places for file in list_files(table.io, place)]
    indexes = list(list_files(table.io, index_place))
    metadata_place = table.metadata.properties.get(METADATA_PATH, "").rstrip("/")
    beside = list(list_files(table.io, metadata_place)) if metadata_place in unlisted else []
    reach("orphans-listed")
    staged = staged_names(table.io, index_place, now - older_than_seconds)
    fresh = load()
    if fresh.metadata.table_uuid != table.metadata.table_uuid:
        raise Transient(f"{name}: the table was made anew while its files were listed; nothing was deleted")
    referenced = referenced_names(fresh)
    unknown = [_unknown_metadata(files, referenced) for files in (stored, beside)]
    referenced.update(map(file_name, require_alone(fresh.io, fresh.metadata, name, *unknown)))
    if (named := index_names(fresh)) is None:
        unlisted = (*unlisted, index_place)
    else:
        stored, referenced = stored + indexes, referenced | named
    orphans, young = choose_orphans(stored, referenced | staged, now - older_than_seconds)
    reach("delete-orphans")
    done = discard(table.io, () if dry_run else [file.path for file in orphans])
    reach("orphans-deleted")
    return OrphansResult(
        table=name,
        dry_run=dry_run,
        listed=len(stored),
        young=young,
        files=len(orphans) if dry_run else done.deleted,
        bytes=sum(file.bytes for file in orphans),
        left=done.left,
        unlisted=unlisted,
        paths=tuple(file.path for file in orphans[:_SHOWN]),
    )


def storage_time(io: FileIO, place: str) -> float:
    """The time, by this machine or by storage, whichever is behind: the ages of files are told by the clock of storage.

    Storage is asked by a file that is written, listed and deleted again; where that is refused, this machine's counts.
    """
    mark = f"{place}/{uuid.uuid4()}.clock.puffin"
    try:
        with io.new_output(mark).create() as stream:
            stream.write(b"now")
        times = [file.modified_at for file in list_files(io, place) if file.path == mark]
    except OSError as error:
        log.warning("the clock of storage cannot be asked", reason=f"{type(error).__name__}: {error}")
        times = []
    discard(io, [mark])
    return min([time.time(), *(one for one in times if one is not None)])


def _unknown_metadata(files: Iterable[StoredFile], referenced: set[str]) -> list[str]:
    return [
        file.path for file in files if file.path.endswith(METADATA) and file_name(file.path) not in referenced
    ]


def places_of(metadata: TableMetadata) -> tuple[list[str], tuple[str, ...]]:
    """Where a table's files are, and places of its properties that other tables may share, which are not listed."""
    location = metadata.location.rstrip("/")
    own = [f"{location}/data", f"{location}/metadata"]
    elsewhere: list[str] = []
    for place in named_places(metadata):
        if not is_below(place, location):
            elsewhere.append(place)
        elif not any(place == known or is_below(place, known) for known in own):
            own.append(place)
    return own, tuple(elsewhere)


def referenced_names(table: Table) -> set[str]:
    """The names of all files that the table itself needs, whoever wrote them."""
    io, metadata = table.io, table.metadata
    manifests = manifests_of(io, metadata.snapshots)
    every = {one.manifest_path: one for group in manifests.values() for one in group}
    paths: set[str] = {table.metadata_location, *every, *live_paths(io, every.values())}
    paths.update(snapshot.manifest_list for snapshot in metadata.snapshots)
    paths.update(entry.metadata_file for entry in metadata.metadata_log)
    paths.update(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    return {file_name(path) for path in paths}


def index_names(table: Table) -> set[str] | None:
    """The names of all files that the index needs; None where a root cannot be read, so that nobody knows.

    The property names a root as well: it speaks for a snapshot of ours that others have let expire.
    """
    metadata = table.metadata
    root = metadata.properties.get(INDEX_ROOT)
    try:
        return {
            file_name(path) for path in index_files(table.io, metadata.snapshots, *([root] if root else []))
        }
    except (FileNotFoundError, Corrupt):
        return None


def staged_names(io: FileIO, index_place: str, before: float) -> set[str]:
    """The names of all files of a rebuild that is under way: one whose last step is not older than the bound.

    A stage that goes while it is looked for has been swapped in, or another has taken its place: then all is looked at
    again.
    """
    reason = ""
    for attempt in range(_MOST_LOOKS):
        sleep(min(attempt, 1))
        stages = [file for file in list_files(io, index_place) if file.path.endswith(SUFFIX)]
        try:
            return {
                file_name(path)
                for file in stages
                if file.modified_at is None or file.modified_at >= before
                for path in named_by(io, read_stage(io, file.path)[1])
            }
        except (FileNotFoundError, ValidationError) as error:
            reason = type(error).__name__
    raise Transient(
        f"{index_place}: what a rebuild has staged cannot be read, so nothing was deleted ({reason}). If a newer "
        "icemirror rebuilds, clean up with that one; else try again when the rebuild is done."
    )


def choose_orphans(
    stored: Iterable[StoredFile], referenced: set[str], before: float
) -> tuple[list[StoredFile], int]:
    """Those to delete, and how many more nobody names that are too young; a file without a date is young.

    Files are told apart by name alone. Every writer of Iceberg makes names up anew, so the same name is the same file,
    however scheme, host or slashes of its path were written.
    """
    nameless = [file for file in stored if _is_ours(file.path) and file_name(file.path) not in referenced]
    old = [file for file in nameless if file.modified_at is not None and file.modified_at < before]
    return old, len(nameless) - len(old)


def file_name(path: str) -> str:
    """The last part of a path, as storage and as URIs write it."""
    return unquote(path.rstrip("/").rpartition("/")[2])


def _is_ours(path: str) -> bool:
    return file_name(path).endswith(_OURS)
