"""Describes the key index of a mirror from its root and the directories of its segments; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_job.commands.check_segments import check_directories
from spark_job.commands.report_model import ReportModel, UnreadableFile, without_path
from spark_job.iceberg.mirror import Mirror
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.index.tiers import SortedRun, group_sorted_runs, tier_of


class IndexRunReport(ReportModel):
    """A sorted run: segments whose keys do not overlap. Keys are shown as hexadecimal codes."""

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
    """The whole index. `of_head` is false if another writer has committed since."""

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
    """Return a description of the index, with the files that cannot be read."""
    root = mirror.root
    segments = root.segments if root else ()
    entries, index_bytes = (
        sum(segment.entries for segment in segments),
        sum(segment.bytes for segment in segments),
    )
    return IndexReport(
        table=name,
        root=mirror.root_path,
        epoch=mirror.epoch,
        snapshot_id=mirror.indexed_snapshot_id,
        head=mirror.head.snapshot_id if mirror.head else None,
        of_head=not mirror.has_foreign_writes,
        encoding=segments[0].encoding.value if segments else None,
        hash_bits=segments[0].hash_bits
        if segments and not segments[0].key_definition.codec.is_lossless
        else None,
        live_rows=root.live_rows if root else None if mirror.root_unreadable else 0,
        entries=entries,
        tombstones=sum(segment.tombstones for segment in segments),
        bytes=index_bytes,
        bytes_per_key=_average(index_bytes, entries),
        bytes_per_row=_average(index_bytes, root.live_rows) if root and root.live_rows else None,
        greatest=max((segment.greatest_order for segment in segments), default=None),
        files=sum(not file.removed for file in root.files) if root else 0,
        files_gone=len(root.removed_ordinals) if root else 0,
        runs=tuple(_describe_run(run, root) for run in group_sorted_runs(segments)) if root else (),
        unreadable=tuple(_find_unreadable(mirror, segments)),
    )


def _find_unreadable(mirror: Mirror, segments: Sequence[SegmentInfo]) -> Iterable[UnreadableFile]:
    if mirror.root_unreadable:
        yield UnreadableFile(path=mirror.root_path or "", what="the root is missing or fails its checksum")
    for damage in check_directories(mirror.table.io, segments):
        yield UnreadableFile(path=damage.path, what=without_path(str(damage), damage.path))


def _describe_run(run: SortedRun, root: Root) -> IndexRunReport:
    segments = run.segments
    is_wide = segments[0].key_definition.codec.is_wide
    merge_targets = {run_number: group.target for group in root.merging for run_number in group.inputs}
    return IndexRunReport(
        run=run.number,
        tier=tier_of(run.entries),
        segments=len(segments),
        entries=run.entries,
        tombstones=sum(segment.tombstones for segment in segments),
        bytes=sum(segment.bytes for segment in segments),
        bytes_per_key=_average(sum(segment.bytes for segment in segments), run.entries),
        layouts=tuple(sorted({segment.layout.value for segment in segments})),
        first_key=_hex_code(min(segment.first_key for segment in segments), is_wide),
        last_key=_hex_code(max(segment.last_key for segment in segments), is_wide),
        greatest=max(segment.greatest_order for segment in segments),
        files=len({ordinal for segment in segments for ordinal in segment.files}),
        written_at=max(segment.written_at_ms for segment in segments),
        merging_into=merge_targets.get(run.number),
    )


def _hex_code(key: int, is_wide: bool) -> str:
    return f"{key:0{32 if is_wide else 16}x}"


def _average(size: int, count: int) -> float:
    return round(size / count, 2) if count else 0.0
