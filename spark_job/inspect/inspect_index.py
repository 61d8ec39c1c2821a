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
from spark_job.inspect.verify.findings import ReportModel

_READERS = 8


class UnreadableFile(ReportModel):
    """A file that is missing or damaged."""

    path: str
    what: str


class RunReport(ReportModel):
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
    runs: tuple[RunReport, ...]
    unreadable: tuple[UnreadableFile, ...]


def inspect_index(name: str, mirror: Mirror) -> IndexReport:
    """Describe the index, with the files that cannot be read."""
    root = mirror.root
    segments = root.segments if root else ()
    entries, size = sum(one.entries for one in segments), sum(one.bytes for one in segments)
    return IndexReport(
        table=name,
        root=mirror.root_path,
        epoch=mirror.epoch,
        snapshot_id=mirror.own_snapshot_id,
        head=mirror.head.snapshot_id if mirror.head else None,
        of_head=not mirror.foreign,
        encoding=segments[0].encoding.value if segments else None,
        hash_bits=segments[0].hash_bits
        if segments and not segments[0].key_definition.codec.lossless
        else None,
        live_rows=root.live_rows if root else None if mirror.lost else 0,
        entries=entries,
        tombstones=sum(one.tombstones for one in segments),
        bytes=size,
        bytes_per_key=_share(size, entries),
        bytes_per_row=_share(size, root.live_rows) if root and root.live_rows else None,
        greatest=max((one.greatest for one in segments), default=None),
        files=sum(not file.gone for file in root.files) if root else 0,
        files_gone=len(root.gone) if root else 0,
        runs=tuple(_describe(run, root) for run in group_runs(segments)) if root else (),
        unreadable=tuple(_unreadable(mirror, segments)),
    )


def unreadable_segments(io: FileIO, segments: Sequence[SegmentInfo]) -> list[DamagedSegment]:
    """Return the segments that are missing, have a wrong length, or a directory with a wrong checksum."""
    with ThreadPoolExecutor(_READERS) as pool:
        return [damage for damage in pool.map(lambda one: _damage(io, one), segments) if damage]


def _damage(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    try:
        with reading_segment(segment.path):
            found = len(io.new_input(segment.path))
            if found != segment.bytes:
                raise Corrupt(f"{segment.path}: has {found} bytes, expected {segment.bytes}")
            read_directory(io, segment)
    except DamagedSegment as error:
        return error
    return None


def _unreadable(mirror: Mirror, segments: Sequence[SegmentInfo]) -> Iterable[UnreadableFile]:
    if mirror.lost:
        yield UnreadableFile(path=mirror.root_path or "", what="the root is missing or fails its checksum")
    for damage in unreadable_segments(mirror.table.io, segments):
        yield UnreadableFile(path=damage.path, what=str(damage).removeprefix(f"{damage.path}: "))


def _describe(run: SegmentRun, root: Root) -> RunReport:
    parts = run.segments
    wide = parts[0].key_definition.codec.is_wide
    merging = {number: group.target for group in root.merging for number in group.inputs}
    return RunReport(
        run=run.number,
        tier=tier_of(run.entries),
        segments=len(parts),
        entries=run.entries,
        tombstones=sum(one.tombstones for one in parts),
        bytes=sum(one.bytes for one in parts),
        bytes_per_key=_share(sum(one.bytes for one in parts), run.entries),
        layouts=tuple(sorted({one.layout.value for one in parts})),
        first_key=_code(min(one.first_key for one in parts), wide),
        last_key=_code(max(one.last_key for one in parts), wide),
        greatest=max(one.greatest for one in parts),
        files=len({ordinal for one in parts for ordinal in one.files}),
        written_at=max(one.written_at for one in parts),
        merging_into=merging.get(run.number),
    )


def _code(key: int, wide: bool) -> str:
    return f"{key:0{32 if wide else 16}x}"


def _share(size: int, count: int) -> float:
    return round(size / count, 2) if count else 0.0
