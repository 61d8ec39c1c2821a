"""What the key index of a mirror is made of, from its root and the directories of its segments; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel, ConfigDict
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.iceberg.mirror import Mirror
from spark_job.key_index.blocks import read_directory
from spark_job.key_index.damage import DamagedSegment, reading_segment
from spark_job.key_index.root import Root
from spark_job.key_index.segment import SegmentInfo
from spark_job.key_index.tiers import Run, runs_of, tier_of

_READERS = 8


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Unreadable(_Frozen):
    """A file of the index that is gone or damaged."""

    path: str
    what: str


class RunReport(_Frozen):
    """One run: segments whose keys do not overlap. Keys are codes, in hexadecimal."""

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


class IndexReport(_Frozen):
    """All of an index. `of_head` is false where others have written since it was committed."""

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
    unreadable: tuple[Unreadable, ...]


def inspect_index(name: str, mirror: Mirror) -> IndexReport:
    """Describes the index; parts that cannot be read are named."""
    root = mirror.root
    segments = root.segments if root else ()
    entries, size = sum(one.entries for one in segments), sum(one.bytes for one in segments)
    return IndexReport(
        table=name,
        root=mirror.root_path,
        epoch=mirror.epoch,
        snapshot_id=mirror.standing_id,
        head=mirror.head.snapshot_id if mirror.head else None,
        of_head=not mirror.foreign,
        encoding=segments[0].encoding.value if segments else None,
        hash_bits=segments[0].hash_bits if segments and not segments[0].recipe.codec.lossless else None,
        live_rows=root.live_rows if root else None if mirror.lost else 0,
        entries=entries,
        tombstones=sum(one.tombstones for one in segments),
        bytes=size,
        bytes_per_key=_share(size, entries),
        bytes_per_row=_share(size, root.live_rows) if root and root.live_rows else None,
        greatest=max((one.greatest for one in segments), default=None),
        files=sum(not file.gone for file in root.files) if root else 0,
        files_gone=len(root.gone) if root else 0,
        runs=tuple(_describe(run, root) for run in runs_of(segments)) if root else (),
        unreadable=tuple(_unreadable(mirror, segments)),
    )


def unreadable_segments(io: FileIO, segments: Sequence[SegmentInfo]) -> list[DamagedSegment]:
    """The segments that are gone, have another length, or whose directory fails its checksum."""
    with ThreadPoolExecutor(_READERS) as pool:
        return [damage for damage in pool.map(lambda one: _damage(io, one), segments) if damage]


def _damage(io: FileIO, segment: SegmentInfo) -> DamagedSegment | None:
    try:
        with reading_segment(segment.path):
            found = len(io.new_input(segment.path))
            if found != segment.bytes:
                raise Corrupt(f"{segment.path}: has {found} bytes, should have {segment.bytes}")
            read_directory(io, segment)
    except DamagedSegment as error:
        return error
    return None


def _unreadable(mirror: Mirror, segments: Sequence[SegmentInfo]) -> Iterable[Unreadable]:
    if mirror.lost:
        yield Unreadable(path=mirror.root_path or "", what="the root is gone or fails its checksum")
    for damage in unreadable_segments(mirror.table.io, segments):
        yield Unreadable(path=damage.path, what=str(damage).removeprefix(f"{damage.path}: "))


def _describe(run: Run, root: Root) -> RunReport:
    parts = run.segments
    wide = parts[0].recipe.codec.is_wide
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
