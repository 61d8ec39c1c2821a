"""Loads what is verified: the mirror, the snapshot of its index, and the changelog up to the cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import NO_MIRROR_YET, REBUILD, Corrupt, Invalid
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource
from spark_job.changelog.history import ChangelogFile, CursorExpired, snapshots_since
from spark_job.changelog.resolve_shape import resolve_shape
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import CURSOR, CursorProperty, Mirror, read_mirror
from spark_job.inspect.verify.verify_report import FindingKind, VerifyFinding, as_findings
from spark_job.maintenance.index_foreign_writes import compare_files
from spark_job.pipeline import Pipeline
from spark_job.plan.row_columns import row_shape
from spark_job.plan.schema_evolution import with_field_map
from spark_job.plan.table_plan import merged_files
from spark_job.write.live_row_counts import recount_deleted_rows


@dataclass(frozen=True)
class VerifySubject:
    """`head_files`: live files of the head. `index_files`: live files of the snapshot that the index belongs to.

    `history` is None if the cursor is not in the changelog's history. `index_files` is None if there is no index, or
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


def open_subject(pipeline: Pipeline, table: TableSettings) -> VerifySubject:
    """Load the metadata, and check root, cursor and row counts."""
    loaded = pipeline.catalogs.load_mirror(table)
    if loaded is None:
        raise Invalid(f"{table.name}: {NO_MIRROR_YET}.")
    findings: list[VerifyFinding] = []
    try:
        mirror = read_mirror(loaded, table.name)
    except Corrupt as error:
        return _without_root(pipeline, table, loaded, str(error))
    changelog = pipeline.catalogs.load_changelog(table)
    shape = row_shape(table, changelog, mirror)
    mirror = with_field_map(table, changelog, shape, mirror)
    wrong = list(_cursor_problems(changelog, mirror))
    findings += as_findings(FindingKind.CURSOR, wrong)
    history: tuple[ChangelogFile, ...] | None = None
    if not wrong:
        table_plan = pipeline.planner.require_plan(table)
        if table_plan.mirror is not None:
            mirror, changelog, shape = table_plan.mirror, table_plan.changelog, table_plan.shape
        history = tuple(merged_files(table_plan))
    if mirror.root_unreadable:
        findings += as_findings(FindingKind.ROOT, [f"{mirror.root_path}: is missing or fails its checksum"])
    subject = VerifySubject(
        name=table.name,
        mirror=mirror,
        changelog=changelog,
        shape=shape.with_mirror_salt(mirror.table.metadata.table_uuid),
        head_files=_live_files(mirror, mirror.head),
        index_files=_index_files(mirror),
        history=history,
        findings=tuple(findings),
    )
    return _with_counts(subject)


def _without_root(pipeline: Pipeline, table: TableSettings, loaded: Table, what: str) -> VerifySubject:
    changelog = pipeline.catalogs.load_changelog(table)
    head = loaded.current_snapshot()
    return VerifySubject(
        name=table.name,
        mirror=Mirror(loaded, head, None, 0, None, {}, root_unreadable=True),
        changelog=changelog,
        shape=resolve_shape(table, changelog.schema()),
        head_files=live_files(loaded.io, head),
        index_files=None,
        history=None,
        findings=tuple(as_findings(FindingKind.ROOT, [what])),
        notes=("rows could not be compared: the root belongs to another snapshot",),
    )


def _cursor_problems(changelog: Table, mirror: Mirror) -> list[str]:
    """Describe what is wrong with the cursor."""
    wrong: list[str] = []
    cursor_property = _read_cursor_property(mirror)
    if cursor_property is not None and cursor_property.snapshot_id == mirror.icemirror_snapshot_id:
        stored = cursor_property.cursor if cursor_property.cursor.sources else None
        if stored != mirror.cursor:
            wrong.append(
                f"snapshot {cursor_property.snapshot_id}: the cursor in its summary differs from the table property"
            )
    if mirror.cursor is not None:
        wrong += _source_problems(changelog, mirror.cursor.source)
    return wrong


def _read_cursor_property(mirror: Mirror) -> CursorProperty | None:
    try:
        return CursorProperty.model_validate_json(mirror.table.metadata.properties.get(CURSOR, ""))
    except ValueError:
        return None


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
    found = changelog.metadata.snapshot_by_id(source.snapshot_id)
    number = found.sequence_number or 0 if found else source.sequence_number
    if source.files_done is None and source.sequence_number != number:
        return [
            f"snapshot {source.snapshot_id} of the changelog has number {number}, not {source.sequence_number}"
        ]
    return []


def _index_files(mirror: Mirror) -> Mapping[str, LiveFile] | None:
    if mirror.root is None or mirror.icemirror_snapshot_id is None:
        return None
    index_snapshot = mirror.table.metadata.snapshot_by_id(mirror.icemirror_snapshot_id)
    return None if index_snapshot is None else _live_files(mirror, index_snapshot)


def _live_files(mirror: Mirror, snapshot: Snapshot | None) -> Mapping[str, LiveFile]:
    live = live_files(mirror.table.io, snapshot)
    try:
        return recount_deleted_rows(mirror.table.io, live, mirror.root)
    except Corrupt:  # reading the rows reports the same damage
        return live


def _with_counts(subject: VerifySubject) -> VerifySubject:
    """Add a finding for data files that the index counts differently than its snapshot."""
    root, notes = subject.mirror.root, list(subject.notes)
    if subject.mirror.has_foreign_writes:
        notes.append(
            "another writer has committed since the index was written; the next merge indexes it and changes no row"
        )
    if subject.history is None:
        notes.append(
            "rows could not be compared with the changelog: the cursor is not in its history. To continue, "
            f"{REBUILD}."
        )
    if root is None or subject.index_files is None:
        if root is not None:
            notes.append("the index could not be compared: its snapshot has expired")
        return replace(subject, notes=tuple(notes))
    difference = compare_files(root, subject.index_files)
    counts = [f"{file.path}: is not in the index" for file in difference.added]
    counts += [
        f"{root.files[at].path}: is in the index, but not in the table" for at in sorted(difference.removed)
    ]
    counts += [
        f"{file.path}: has {file.rows - file.deleted} live rows, the index counts {root.files[at].live}"
        for at, file in difference.changed.items()
    ]
    return replace(
        subject, notes=tuple(notes), findings=(*subject.findings, *as_findings(FindingKind.COUNT, counts))
    )
