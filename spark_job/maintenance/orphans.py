"""`maintain clean-orphans`: deletes files in a mirror's locations that are old and that nothing references."""

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

from icemirror.errors import Corrupt, Transient
from icemirror.processes.crash_points import reach
from icemirror.result import OrphansResult
from icemirror.telemetry.logs import get_log
from spark_job.commit.owned_locations import METADATA_PATH, configured_locations, is_below
from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.iceberg.references import files_of_history, index_files, live_paths, manifests_by_snapshot
from spark_job.iceberg.stage import SUFFIX, read_stage
from spark_job.index.root import index_location
from spark_job.maintenance.expire import require_own_files
from spark_job.maintenance.list_files import StoredFile, list_files
from spark_job.maintenance.shared_locations import METADATA_SUFFIXES, require_unshared_location
from spark_job.storage.discard import discard

_ICEBERG_SUFFIXES = (".parquet", ".orc", ".avro", ".puffin", ".stats", *METADATA_SUFFIXES)
_MAX_LISTED_PATHS = 1000
_MAX_STAGE_READS = 5

log = get_log(__name__)


def clean_orphans(
    load: Callable[[], Table],
    name: str,
    *,
    older_than_seconds: float,
    configured_location: str | None = None,
    dry_run: bool = False,
) -> OrphansResult:
    """Delete files older than the limit that no snapshot, metadata file or index root references.

    Files are listed, and running rebuilds found, before the table is loaded again: what was committed
    meanwhile counts as referenced.
    """
    table = load()
    require_own_files(table.metadata, name)
    locations, unlisted = table_locations(table.metadata)
    table_index_location = index_location(table.metadata, configured_location)
    now = time.time() if dry_run else storage_time(table.io, table_index_location)
    stored = [file for location in locations for file in list_files(table.io, location)]
    indexes = list(list_files(table.io, table_index_location))
    metadata_path = table.metadata.properties.get(METADATA_PATH, "").rstrip("/")
    elsewhere = list(list_files(table.io, metadata_path)) if metadata_path in unlisted else []
    reach("orphans-listed")
    staged = staged_names(table.io, table_index_location, now - older_than_seconds)
    fresh = load()
    if fresh.metadata.table_uuid != table.metadata.table_uuid:
        raise Transient(f"{name}: the table was recreated while its files were listed; nothing was deleted")
    referenced = referenced_names(fresh)
    unknown = [_unknown_metadata(files, referenced) for files in (stored, elsewhere)]
    referenced.update(map(file_name, require_unshared_location(fresh.io, fresh.metadata, name, *unknown)))
    if (index_file_names := index_names(fresh)) is None:
        unlisted = (*unlisted, table_index_location)
    else:
        stored, referenced = stored + indexes, referenced | index_file_names
    orphans, too_young = choose_orphans(stored, referenced | staged, now - older_than_seconds)
    reach("delete-orphans")
    discarded = discard(table.io, () if dry_run else [file.path for file in orphans])
    reach("orphans-deleted")
    return OrphansResult(
        table=name,
        dry_run=dry_run,
        listed=len(stored),
        young=too_young,
        files=len(orphans) if dry_run else discarded.deleted,
        bytes=sum(file.bytes for file in orphans),
        left=discarded.not_deleted,
        unlisted=unlisted,
        paths=tuple(file.path for file in orphans[:_MAX_LISTED_PATHS]),
    )


def storage_time(io: FileIO, location: str) -> float:
    """Return the time of this machine or of storage, whichever is earlier: files carry the storage's time.

    The time of storage is that of a file which is written, listed and deleted. If writing is refused, only this
    machine's clock counts.
    """
    probe = f"{location}/{uuid.uuid4()}.clock.puffin"
    try:
        with io.new_output(probe).create() as stream:
            stream.write(b"now")
        times = [file.modified_at for file in list_files(io, location) if file.path == probe]
    except OSError as error:
        log.warning("storage clock unavailable", reason=f"{type(error).__name__}: {error}")
        times = []
    discard(io, [probe])
    return min([time.time(), *(seconds for seconds in times if seconds is not None)])


def _unknown_metadata(files: Iterable[StoredFile], referenced: set[str]) -> list[str]:
    return [
        file.path
        for file in files
        if file.path.endswith(METADATA_SUFFIXES) and file_name(file.path) not in referenced
    ]


def table_locations(metadata: TableMetadata) -> tuple[list[str], tuple[str, ...]]:
    """Return the locations of a table's files, and those that other tables may share, which are not listed."""
    location = metadata.location.rstrip("/")
    listed = [f"{location}/data", f"{location}/metadata"]
    elsewhere: list[str] = []
    for configured in configured_locations(metadata):
        if not is_below(configured, location):
            elsewhere.append(configured)
        elif not any(configured == known or is_below(configured, known) for known in listed):
            listed.append(configured)
    return listed, tuple(elsewhere)


def referenced_names(table: Table) -> set[str]:
    """Return the names of all files that the table references, by any writer."""
    io, metadata = table.io, table.metadata
    manifests = manifests_by_snapshot(io, metadata.snapshots)
    manifests_by_path = {
        manifest.manifest_path: manifest for group in manifests.values() for manifest in group
    }
    paths: set[str] = {
        table.metadata_location,
        *manifests_by_path,
        *live_paths(io, manifests_by_path.values()),
    }
    paths.update(snapshot.manifest_list for snapshot in metadata.snapshots)
    paths.update(entry.metadata_file for entry in metadata.metadata_log)
    paths.update(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    return {file_name(path) for path in paths}


def index_names(table: Table) -> set[str] | None:
    """Return the names of all files that the index references; None if a root cannot be read.

    The table property counts too: it names the root of our last snapshot, which another engine may have expired.
    """
    metadata = table.metadata
    root = metadata.properties.get(INDEX_ROOT)
    try:
        return {
            file_name(path) for path in index_files(table.io, metadata.snapshots, *([root] if root else []))
        }
    except (FileNotFoundError, Corrupt):
        return None


def staged_names(io: FileIO, table_index_location: str, before: float) -> set[str]:
    """Return the names of all files of running rebuilds: those whose last step is not older than `before`.

    A stage that disappears meanwhile was swapped in or replaced by the next one: then all stages are read again.
    """
    reason = ""
    for attempt in range(_MAX_STAGE_READS):
        sleep(min(attempt, 1))
        stages = [file for file in list_files(io, table_index_location) if file.path.endswith(SUFFIX)]
        try:
            return {
                file_name(path)
                for file in stages
                if file.modified_at is None or file.modified_at >= before
                for path in files_of_history(io, read_stage(io, file.path)[1])
            }
        except (FileNotFoundError, ValidationError) as error:
            reason = type(error).__name__
    raise Transient(
        f"the stage of a rebuild cannot be read ({reason}); nothing was deleted. If a newer icemirror rebuilds, clean "
        f"up with that version; else try again when the rebuild is done. The index: {table_index_location}"
    )


def choose_orphans(
    stored: Iterable[StoredFile], referenced: set[str], before: float
) -> tuple[list[StoredFile], int]:
    """Return the files to delete, and how many unreferenced files are too young; a file without a date is young.

    Only names are compared: Iceberg writers never reuse a name, and paths may differ in scheme, host or
    slashes.
    """
    orphans = [file for file in stored if _is_iceberg(file.path) and file_name(file.path) not in referenced]
    old = [file for file in orphans if file.modified_at is not None and file.modified_at < before]
    return old, len(orphans) - len(old)


def file_name(path: str) -> str:
    """Return the last part of a path, with URI escapes decoded."""
    return unquote(path.rstrip("/").rpartition("/")[2])


def _is_iceberg(path: str) -> bool:
    return file_name(path).endswith(_ICEBERG_SUFFIXES)
