"""What a snapshot reaches: manifests, data and delete files, and its index. Read once, for files never change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Snapshot

from spark_job.files.immutable import ReadOnce
from spark_job.files.round_trips import for_each
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.mirror import CURSOR, INDEX_ROOT
from spark_job.iceberg.seams import read_entries
from spark_job.key_index.root import segment_paths

_MOST_FILES = 200_000


@dataclass(frozen=True, slots=True)
class Entries:
    """The files that a manifest has, and those that it says its snapshot took away."""

    live: frozenset[str]
    removed: frozenset[str]


_entries: ReadOnce[Entries] = ReadOnce(_MOST_FILES, lambda named: 1 + len(named.live) + len(named.removed))


def manifests_of(io: FileIO, snapshots: Sequence[Snapshot]) -> dict[int, tuple[ManifestFile, ...]]:
    """The manifests of each snapshot."""
    found = for_each(partial(known_manifests, io), snapshots, snapshots[0].manifest_list if snapshots else "")
    return {snapshot.snapshot_id: manifests for snapshot, manifests in zip(snapshots, found, strict=True)}


def entries_of(io: FileIO, manifests: Sequence[ManifestFile]) -> list[Entries]:
    """The files that each manifest names."""
    return for_each(
        lambda one: _entries.get(one.manifest_path, partial(_read, io, one)),
        manifests,
        manifests[0].manifest_path if manifests else "",
    )


def live_paths(io: FileIO, manifests: Iterable[ManifestFile], *contents: ManifestContent) -> set[str]:
    """The data or delete files in some manifests; of both kinds if none is named."""
    wanted = {one.manifest_path: one for one in manifests if not contents or one.content in contents}
    return {path for entries in entries_of(io, list(wanted.values())) for path in entries.live}


def index_files(io: FileIO, snapshots: Iterable[Snapshot], *others: str) -> set[str]:
    """The index roots of snapshots and some others, and the segments that they name."""
    roots = {path for snapshot in snapshots if (path := root_of(snapshot))}.union(others)
    return roots.union(*for_each(partial(segment_paths, io), list(roots), next(iter(roots), "")))


def root_of(snapshot: Snapshot) -> str | None:
    """The index root that a snapshot of icemirror's was committed with; others have none, whatever they say."""
    told = snapshot.summary.additional_properties if snapshot.summary else {}
    return told.get(INDEX_ROOT) if CURSOR in told else None


def _read(io: FileIO, manifest: ManifestFile) -> Entries:
    live: set[str] = set()
    removed: set[str] = set()
    for entry in read_entries(io, manifest, deleted=True):
        (removed if entry.status is ManifestEntryStatus.DELETED else live).add(entry.data_file.file_path)
    return Entries(frozenset(live), frozenset(removed))
