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
from icemirror.processes.crash_points import crash_point
from icemirror.result import OrphansResult
from icemirror.telemetry.logs import get_log
from spark_job.commit.expire.owned_locations import METADATA_PATH, configured_locations, is_below
from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.iceberg.references import find_referenced_files, index_files, live_paths, manifests_by_snapshot
from spark_job.iceberg.stage_file import STAGE_FILE_SUFFIX, read_stage_file
from spark_job.index.location import index_location
from spark_job.maintenance.expire import require_owned_files
from spark_job.maintenance.list_files import StoredFile, list_files
from spark_job.maintenance.shared_locations import METADATA_SUFFIXES, require_unshared_location
from spark_job.storage.discard import discard

_ICEBERG_SUFFIXES = (".parquet", ".orc", ".avro", ".puffin", ".stats", *METADATA_SUFFIXES)
_MAX_LISTED_PATHS = 1000
_MAX_STAGE_READS = 5

log = get_log(__name__)


def clean_orphans(
    load_table: Callable[[], Table],
    name: str,
    *,
    older_than_seconds: float,
    configured_location: str | None = None,
    dry_run: bool = False,
) -> OrphansResult:
    """Delete files older than the limit that no snapshot, metadata file or index root references.

    Files are listed, and running rebuilds found, before the table is loaded again: what was committed meanwhile counts
    as referenced.
    """
    iceberg_table = load_table()
    require_owned_files(iceberg_table.metadata, name)
    locations, unlisted = table_locations(iceberg_table.metadata)
    table_index_location = index_location(iceberg_table.metadata, configured_location)
    now = time.time() if dry_run else storage_time(iceberg_table.io, table_index_location)
    stored_files = [file for location in locations for file in list_files(iceberg_table.io, location)]
    stored_index_files = list(list_files(iceberg_table.io, table_index_location))
    metadata_path = iceberg_table.metadata.properties.get(METADATA_PATH, "").rstrip("/")
    stored_metadata_files = (
        list(list_files(iceberg_table.io, metadata_path)) if metadata_path in unlisted else []
    )
    crash_point("orphans-listed")
    staged = staged_names(iceberg_table.io, table_index_location, now - older_than_seconds)
    current = load_table()
    if current.metadata.table_uuid != iceberg_table.metadata.table_uuid:
        raise Transient(f"{name}: the table was recreated while its files were listed; nothing was deleted")
    referenced = referenced_names(current)
    unreferenced = [
        _unreferenced_metadata(files, referenced) for files in (stored_files, stored_metadata_files)
    ]
    empty_table_metadata = require_unshared_location(current.io, current.metadata, name, *unreferenced)
    referenced.update(map(file_name, empty_table_metadata))
    if (index_file_names := index_names(current)) is None:
        unlisted = (*unlisted, table_index_location)
    else:
        stored_files += stored_index_files
        referenced |= index_file_names
    orphans, recent = choose_orphans(stored_files, referenced | staged, now - older_than_seconds)
    crash_point("delete-orphans")
    discarded = discard(iceberg_table.io, () if dry_run else [file.path for file in orphans])
    crash_point("orphans-deleted")
    return OrphansResult(
        table=name,
        dry_run=dry_run,
        listed=len(stored_files),
        young=recent,
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


def _unreferenced_metadata(files: Iterable[StoredFile], referenced: set[str]) -> list[str]:
    """Return the paths of metadata files that the table does not reference."""
    return [
        file.path
        for file in files
        if file.path.endswith(METADATA_SUFFIXES) and file_name(file.path) not in referenced
    ]


def table_locations(metadata: TableMetadata) -> tuple[list[str], tuple[str, ...]]:
    """Return the locations of a table's files, and those that other tables may share, which are not listed."""
    location = metadata.location.rstrip("/")
    listed = [f"{location}/data", f"{location}/metadata"]
    unlisted: list[str] = []
    for configured in configured_locations(metadata):
        if not is_below(configured, location):
            unlisted.append(configured)
        elif not any(configured == parent or is_below(configured, parent) for parent in listed):
            listed.append(configured)
    return listed, tuple(unlisted)


def referenced_names(iceberg_table: Table) -> set[str]:
    """Return the names of all files that the table references, by any writer."""
    io, metadata = iceberg_table.io, iceberg_table.metadata
    manifests = manifests_by_snapshot(io, metadata.snapshots)
    manifests_by_path = {
        manifest.manifest_path: manifest for group in manifests.values() for manifest in group
    }
    paths: set[str] = {
        iceberg_table.metadata_location,
        *manifests_by_path,
        *live_paths(io, manifests_by_path.values()),
    }
    paths.update(snapshot.manifest_list for snapshot in metadata.snapshots)
    paths.update(entry.metadata_file for entry in metadata.metadata_log)
    paths.update(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    return {file_name(path) for path in paths}


def index_names(iceberg_table: Table) -> set[str] | None:
    """Return the names of all files that the index references; None if a root cannot be read.

    The table property counts too: it contains the root of icemirror's last snapshot, which another engine may expire.
    """
    metadata = iceberg_table.metadata
    root = metadata.properties.get(PROPERTY_INDEX_ROOT)
    try:
        return {
            file_name(path)
            for path in index_files(iceberg_table.io, metadata.snapshots, *([root] if root else []))
        }
    except (FileNotFoundError, Corrupt):
        return None


def staged_names(io: FileIO, table_index_location: str, oldest_step: float) -> set[str]:
    """Return the names of all files of running rebuilds: those whose last step is not older than `oldest_step`.

    A stage that disappears meanwhile was swapped in or replaced by the next one: then all stages are read again.
    """
    reason = ""
    for attempt in range(_MAX_STAGE_READS):
        sleep(min(attempt, 1))
        stages = [
            file for file in list_files(io, table_index_location) if file.path.endswith(STAGE_FILE_SUFFIX)
        ]
        try:
            return {
                file_name(path)
                for file in stages
                if file.modified_at is None or file.modified_at >= oldest_step
                for path in find_referenced_files(io, read_stage_file(io, file.path)[1])
            }
        except (FileNotFoundError, ValidationError) as error:
            reason = type(error).__name__
    raise Transient(
        f"the stage of a rebuild cannot be read ({reason}); nothing was deleted. If a newer icemirror rebuilds, clean "
        f"up with that version; else try again when the rebuild is done. The index: {table_index_location}"
    )


def choose_orphans(
    stored_files: Iterable[StoredFile], referenced: set[str], modified_before: float
) -> tuple[list[StoredFile], int]:
    """Return the files to delete, and how many unreferenced files are too recent; a file without a date is recent.

    Only names are compared: Iceberg writers never reuse a name, and paths may differ in scheme, host or slashes.
    """
    unreferenced = [
        file for file in stored_files if _is_iceberg(file.path) and file_name(file.path) not in referenced
    ]
    orphans = [
        file for file in unreferenced if file.modified_at is not None and file.modified_at < modified_before
    ]
    return orphans, len(unreferenced) - len(orphans)


def file_name(path: str) -> str:
    """Return the last part of a path, with URI escapes decoded."""
    return unquote(path.rstrip("/").rpartition("/")[2])


def _is_iceberg(path: str) -> bool:
    return file_name(path).endswith(_ICEBERG_SUFFIXES)
