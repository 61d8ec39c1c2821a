"""Describes the key index of a mirror from its root and the directories of its segments; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.iceberg.mirror import Mirror
from spark_job.index.blocks import read_directory
from spark_job.index.root import Root
from spark_job.index.segment import DamagedSegment, SegmentInfo, reading_segment
from spark_job.index.tiers import SegmentRun, group_runs, tier_of
from spark_job.inspect.verify.verify_report import ReportModel

_READERS = 8


class UnreadableFile(ReportModel):
    """A file that is missing or damaged."""

    path: str
    what: str


def without_path(message: str, path: str) -> str:
    """Return an error message without the path of the file, which a report shows separately."""
    return message.removeprefix(f"{path}: ").removesuffix(f": {path}")


class IndexRunReport(ReportModel):
    """A run: segments whose keys do not overlap. Keys are shown as hexadecimal codes."""

    run: int
    tier: int
    segments: int
    entries: int
    tombstones: int
    bytes: int
    bytes_per_key: float
    layouts: tuple[str, ...]
    first_key: str
    last_key: str
    greatest: tuple[int, ...]
    files: int
    written_at: int
    merging_into: int | None


class IndexReport(ReportModel):
    """A whole index. `of_head` is false if another writer has committed since."""

    table: str
    root: str | None
    epoch: int
    snapshot_id: int | None
    head: int | None
    of_head: bool
    encoding: str | None
    hash_bits: int | None
    live_rows: int | None
    entries: int
    tombstones: int
    bytes: int
    bytes_per_key: float
    bytes_per_row: float | None
    greatest: tuple[int, ...] | None
    files: int
    files_gone: int
    runs: tuple[IndexRunReport, ...]
    unreadable: tuple[UnreadableFile, ...]


def inspect_index(name: str, mirror: Mirror) -> IndexReport:
    """Describe the index, with the files that cannot be read."""
    root = mirror.root
    segments = root.segments if root else ()
    entries, size = sum(segment.entries for segment in segments), sum(segment.bytes for segment in segments)
    return IndexReport(
        table=name,
        root=mirror.root_path,
        epoch=mirror.epoch,
        snapshot_id=mirror.icemirror_snapshot_id,
        head=mirror.head.snapshot_id if mirror.head else None,
        of_head=not mirror.has_foreign_writes,
        encoding=segments[0].encoding.value if segments else None,
        hash_bits=segments[0].hash_bits
        if segments and not segments[0].key_definition.codec.lossless
        else None,
        live_rows=root.live_rows if root else None if mirror.root_unreadable else 0,
        entries=entries,
        tombstones=sum(segment.tombstones for segment in segments),
        bytes=size,
        bytes_per_key=_share(size, entries),
        bytes_per_row=_share(size, root.live_rows) if root and root.live_rows else None,
        greatest=max((segment.greatest_order for segment in segments), default=None),
        files=sum(not file.removed for file in root.files) if root else 0,
        files_gone=len(root.removed_ordinals) if root else 0,
        runs=tuple(_describe(run, root) for run in group_runs(segments)) if root else (),
        unreadable=tuple(_unreadable(mirror, segments)),
    )


def unreadable_segments(io: FileIO, segments: Sequence[SegmentInfo]) -> list[DamagedSegment]:
    """Return the segments that are missing, have a wrong length, or a directory with a wrong checksum."""
    with ThreadPoolExecutor(_READERS) as pool:
        return [damage for damage in pool.map(lambda segment: _damage(io, segment), segments) if damage]


def _damage(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    try:
        with reading_segment(segment.path):
            found = len(io.new_input(segment.path))
            if found != segment.bytes:
                raise Corrupt(f"a segment has {found} bytes, expected {segment.bytes}: {segment.path}")
            read_directory(io, segment)
    except DamagedSegment as error:
        return error
    return None


def _unreadable(mirror: Mirror, segments: Sequence[SegmentInfo]) -> Iterable[UnreadableFile]:
    if mirror.root_unreadable:
        yield UnreadableFile(path=mirror.root_path or "", what="the root is missing or fails its checksum")
    for damage in unreadable_segments(mirror.table.io, segments):
        yield UnreadableFile(path=damage.path, what=without_path(str(damage), damage.path))


def _describe(run: SegmentRun, root: Root) -> IndexRunReport:
    parts = run.segments
    wide = parts[0].key_definition.codec.is_wide
    merging = {number: group.target for group in root.merging for number in group.inputs}
    return IndexRunReport(
        run=run.number,
        tier=tier_of(run.entries),
        segments=len(parts),
        entries=run.entries,
        tombstones=sum(segment.tombstones for segment in parts),
        bytes=sum(segment.bytes for segment in parts),
        bytes_per_key=_share(sum(segment.bytes for segment in parts), run.entries),
        layouts=tuple(sorted({segment.layout.value for segment in parts})),
        first_key=_code(min(segment.first_key for segment in parts), wide),
        last_key=_code(max(segment.last_key for segment in parts), wide),
        greatest=max(segment.greatest_order for segment in parts),
        files=len({ordinal for segment in parts for ordinal in segment.files}),
        written_at=max(segment.written_at_ms for segment in parts),
        merging_into=merging.get(run.number),
    )


def _code(key: int, wide: bool) -> str:
    return f"{key:0{32 if wide else 16}x}"


def _share(size: int, count: int) -> float:
    return round(size / count, 2) if count else 0.0
