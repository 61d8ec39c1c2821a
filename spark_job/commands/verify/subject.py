"""Loads what is verified: the mirror, the snapshot of its index, and the changelog up to the cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import NO_MIRROR_YET, REBUILD_ADVICE, Corrupt, Invalid
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.history import CursorExpired, snapshots_since
from spark_job.changelog.resolve_shape import resolve_shape
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap
from spark_job.commands.verify.verify_report import FindingKind, VerifyFinding, as_findings
from spark_job.iceberg.cursor_property import read_cursor_property
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.maintenance.index_foreign_writes import compare_files
from spark_job.pipeline import Pipeline
from spark_job.plan.backlog import merged_files
from spark_job.plan.row_columns import row_shape, with_field_map
from spark_job.write.read_deletes import recount_deleted_rows


@dataclass(frozen=True)
class VerifySubject:
    """What is verified: a mirror, its index, and the merged files of its changelog.

    `head_files`: live files of the head. `index_files`: live files of the snapshot that the index belongs to. `history`
    is None if the cursor is not in the changelog's history. `index_files` is None if there is no index, or
    its snapshot has expired.
    """

    name: str
    mirror: Mirror
    changelog: Table
    shape: ChangelogShape
    head_files: Mapping[str, LiveFile]
    index_files: Mapping[str, LiveFile] | None
    history: tuple[ChangelogFile, ...] | None
    findings: tuple[VerifyFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def io(self) -> FileIO:
        """The storage of the mirror."""
        return self.mirror.table.io

    @property
    def field_map(self) -> FieldMap:
        """The field map from changelog to mirror."""
        return self.mirror.field_map

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The field ids of the mirror's key columns."""
        return tuple(self.field_map[key_id] for key_id in self.shape.key_ids)


def open_subject(pipeline: Pipeline, table_settings: TableSettings) -> VerifySubject:
    """Return what to verify, with findings about root, cursor and row counts."""
    mirror_table = pipeline.catalogs.load_mirror(table_settings)
    if mirror_table is None:
        raise Invalid(f"{table_settings.name}: {NO_MIRROR_YET}.")
    findings: list[VerifyFinding] = []
    try:
        mirror = read_mirror(mirror_table, table_settings.name)
    except Corrupt as error:
        return _without_root(pipeline, table_settings, mirror_table, str(error))
    changelog = pipeline.catalogs.load_changelog(table_settings)
    shape = row_shape(table_settings, changelog, mirror)
    mirror = with_field_map(table_settings, changelog, shape, mirror)
    cursor_problems = list(_cursor_problems(changelog, mirror))
    findings += as_findings(FindingKind.CURSOR, cursor_problems)
    history: tuple[ChangelogFile, ...] | None = None
    if not cursor_problems:
        table_plan = pipeline.planner.require_plan(table_settings)
        if table_plan.mirror is not None:
            mirror, changelog, shape = table_plan.mirror, table_plan.changelog, table_plan.shape
        history = tuple(merged_files(table_plan))
    if mirror.root_unreadable:
        findings += as_findings(FindingKind.ROOT, [f"{mirror.root_path}: is missing or fails its checksum"])
    subject = VerifySubject(
        name=table_settings.name,
        mirror=mirror,
        changelog=changelog,
        shape=shape.with_mirror_salt(mirror.table.metadata.table_uuid),
        head_files=_live_files(mirror, mirror.head),
        index_files=_index_files(mirror),
        history=history,
        findings=tuple(findings),
    )
    return _with_findings(subject)


def _without_root(
    pipeline: Pipeline, table_settings: TableSettings, mirror_table: Table, problem: str
) -> VerifySubject:
    changelog = pipeline.catalogs.load_changelog(table_settings)
    head = mirror_table.current_snapshot()
    return VerifySubject(
        name=table_settings.name,
        mirror=Mirror(mirror_table, head, None, 0, None, {}, root_unreadable=True),
        changelog=changelog,
        shape=resolve_shape(table_settings, changelog.schema()),
        head_files=live_files(mirror_table.io, head),
        index_files=None,
        history=None,
        findings=tuple(as_findings(FindingKind.ROOT, [problem])),
        notes=("rows could not be compared: the root belongs to another snapshot",),
    )


def _cursor_problems(changelog: Table, mirror: Mirror) -> list[str]:
    """Return what is wrong with the cursor."""
    problems: list[str] = []
    cursor_property = read_cursor_property(mirror.table.metadata.properties)
    if cursor_property is not None and cursor_property.snapshot_id == mirror.indexed_snapshot_id:
        stored_cursor = cursor_property.cursor if cursor_property.cursor.sources else None
        if stored_cursor != mirror.cursor:
            problems.append(
                f"snapshot {cursor_property.snapshot_id}: the cursor in its summary differs from the table property"
            )
    if mirror.cursor is not None:
        problems += _source_problems(changelog, mirror.cursor.source)
    return problems


def _source_problems(changelog: Table, source: CursorSource) -> list[str]:
    if source.uuid != str(changelog.metadata.table_uuid):
        return [
            f"the cursor belongs to the table {source.uuid}, the changelog is {changelog.metadata.table_uuid}"
        ]
    not_found = [f"snapshot {source.snapshot_id} is not in the history of the changelog"]
    try:
        if isinstance(snapshots_since(changelog, ".".join(changelog.name()), source), CursorExpired):
            return not_found
    except Invalid:
        return not_found
    merged_snapshot = changelog.metadata.snapshot_by_id(source.snapshot_id)
    sequence_number = merged_snapshot.sequence_number or 0 if merged_snapshot else source.sequence_number
    if source.files_done is None and source.sequence_number != sequence_number:
        return [
            f"snapshot {source.snapshot_id} of the changelog has number {sequence_number}, not {source.sequence_number}"
        ]
    return []


def _index_files(mirror: Mirror) -> Mapping[str, LiveFile] | None:
    if mirror.root is None or mirror.indexed_snapshot_id is None:
        return None
    index_snapshot = mirror.table.metadata.snapshot_by_id(mirror.indexed_snapshot_id)
    return None if index_snapshot is None else _live_files(mirror, index_snapshot)


def _live_files(mirror: Mirror, snapshot: Snapshot | None) -> Mapping[str, LiveFile]:
    live = live_files(mirror.table.io, snapshot)
    try:
        return recount_deleted_rows(mirror.table.io, live, mirror.root)
    except Corrupt:  # reading the rows reports the same damage
        return live


def _with_findings(subject: VerifySubject) -> VerifySubject:
    """Return the subject with notes, and a finding if index and snapshot count the rows of data files differently."""
    root, notes = subject.mirror.root, list(subject.notes)
    if subject.mirror.has_foreign_writes:
        notes.append(
            "another writer has committed since the index was written; the next merge indexes it and changes no row"
        )
    if subject.history is None:
        notes.append(
            "rows could not be compared with the changelog: the cursor is not in its history. To continue, "
            f"{REBUILD_ADVICE}."
        )
    if root is None or subject.index_files is None:
        if root is not None:
            notes.append("the index could not be compared: its snapshot has expired")
        return replace(subject, notes=tuple(notes))
    difference = compare_files(root, subject.index_files)
    count_problems = [f"{file.path}: is not in the index" for file in difference.added]
    count_problems += [
        f"{root.files[ordinal].path}: is in the index, but not in the table"
        for ordinal in sorted(difference.removed)
    ]
    count_problems += [
        f"{file.path}: has {file.live_rows} live rows, the index counts {root.files[ordinal].live_rows}"
        for ordinal, file in difference.changed.items()
    ]
    return replace(
        subject,
        notes=tuple(notes),
        findings=(*subject.findings, *as_findings(FindingKind.COUNT, count_problems)),
    )
