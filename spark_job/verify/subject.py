"""What is verified: a mirror, the snapshot that its index belongs to, and the changelog's history up to the cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Source
from icemirror.errors import NO_MIRROR_YET, REBUILD, Corrupt, Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.lineage import walk_back
from spark_job.changelog.shape import ChangelogShape, resolve_shape
from spark_job.columns.field_map import FieldMap
from spark_job.iceberg.mirror import CURSOR, Anchor, Mirror, read_mirror
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.index_upkeep.catch_up import compare
from spark_job.index_upkeep.recount import recount
from spark_job.pipeline import Pipeline
from spark_job.schema_changes.evolution import with_map
from spark_job.schema_changes.row_columns import row_shape
from spark_job.verify.findings import Finding, Kind, finding


@dataclass(frozen=True)
class Subject:
    """`head_files` are the live files of the head, `index_files` those of the snapshot that the index belongs to.

    `history` is None where the cursor is not in the changelog's history, `index_files` where there is no index to
    compare, or its snapshot has expired.
    """

    name: str
    mirror: Mirror
    changelog: Table
    shape: ChangelogShape
    head_files: Mapping[str, LiveFile]
    index_files: Mapping[str, LiveFile] | None
    history: tuple[ChangeFile, ...] | None
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def io(self) -> FileIO:
        """The mirror's files."""
        return self.mirror.table.io

    @property
    def field_map(self) -> FieldMap:
        """Changelog → mirror."""
        return self.mirror.field_map

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The mirror's key columns."""
        return tuple(self.field_map[key_id] for key_id in self.shape.key_ids)


def open_subject(pipeline: Pipeline, table: TableSettings) -> Subject:
    """Loads everything that metadata tell, and checks root, cursor and counts."""
    loaded = pipeline.catalogs.load_mirror(table)
    if loaded is None:
        raise Invalid(f"{table.name}: {NO_MIRROR_YET}.")
    findings: list[Finding] = []
    try:
        mirror = read_mirror(loaded, table.name)
    except Corrupt as error:
        return _without_root(pipeline, table, loaded, str(error))
    changelog = pipeline.catalogs.load_changelog(table)
    shape = row_shape(table, changelog, mirror)
    mirror = with_map(table, changelog, shape, mirror)
    wrong = list(_wrong_cursor(changelog, mirror))
    findings += finding(Kind.CURSOR, wrong)
    history: tuple[ChangeFile, ...] | None = None
    if not wrong:
        prepared = pipeline.prepare(table)
        if prepared.mirror is not None:
            mirror, changelog, shape = prepared.mirror, prepared.changelog, prepared.shape
        history = tuple(prepared.merged_files())
    if mirror.lost:
        findings += finding(Kind.ROOT, [f"{mirror.root_path}: is gone or fails its checksum"])
    subject = Subject(
        name=table.name,
        mirror=mirror,
        changelog=changelog,
        shape=shape.of_mirror(mirror.table.metadata.table_uuid),
        head_files=_live_files(mirror, mirror.head),
        index_files=_index_files(mirror),
        history=history,
        findings=tuple(findings),
    )
    return _with_counts(subject)


def _without_root(pipeline: Pipeline, table: TableSettings, loaded: Table, what: str) -> Subject:
    changelog = pipeline.catalogs.load_changelog(table)
    head = loaded.current_snapshot()
    return Subject(
        name=table.name,
        mirror=Mirror(loaded, head, None, 0, None, {}, lost=True),
        changelog=changelog,
        shape=resolve_shape(table, changelog.schema()),
        head_files=live_files(loaded.io, head),
        index_files=None,
        history=None,
        findings=tuple(finding(Kind.ROOT, [what])),
        notes=("rows could not be compared: the root says of another snapshot",),
    )


def _wrong_cursor(changelog: Table, mirror: Mirror) -> list[str]:
    """What is wrong with the cursor, in words."""
    wrong: list[str] = []
    anchor = _anchor(mirror)
    if anchor is not None and anchor.snapshot_id == mirror.standing_id:
        told = anchor.cursor if anchor.cursor.sources else None
        if told != mirror.cursor:
            wrong.append(
                f"snapshot {anchor.snapshot_id}: its summary has another cursor than the table property"
            )
    if mirror.cursor is not None:
        wrong += _wrong_source(changelog, mirror.cursor.source)
    return wrong


def _anchor(mirror: Mirror) -> Anchor | None:
    try:
        return Anchor.model_validate_json(mirror.table.metadata.properties.get(CURSOR, ""))
    except ValueError:
        return None


def _wrong_source(changelog: Table, source: Source) -> list[str]:
    if source.uuid != str(changelog.metadata.table_uuid):
        return [f"the cursor is of the table {source.uuid}, the changelog is {changelog.metadata.table_uuid}"]
    try:
        walk_back(changelog, ".".join(changelog.name()), source)
    except Invalid:
        return [f"snapshot {source.snapshot_id} is not in the history of the changelog"]
    found = changelog.metadata.snapshot_by_id(source.snapshot_id)
    number = found.sequence_number or 0 if found else source.sequence_number
    if source.files_done is None and source.sequence_number != number:
        return [
            f"snapshot {source.snapshot_id} of the changelog has number {number}, not {source.sequence_number}"
        ]
    return []


def _index_files(mirror: Mirror) -> Mapping[str, LiveFile] | None:
    if mirror.root is None or mirror.standing_id is None:
        return None
    standing = mirror.table.metadata.snapshot_by_id(mirror.standing_id)
    return None if standing is None else _live_files(mirror, standing)


def _live_files(mirror: Mirror, snapshot: Snapshot | None) -> Mapping[str, LiveFile]:
    live = live_files(mirror.table.io, snapshot)
    try:
        return recount(mirror.table.io, live, mirror.root)
    except Corrupt:  # whoever looks at the rows finds that, too
        return live


def _with_counts(subject: Subject) -> Subject:
    """With a finding for each data file that the index does not count as its snapshot does."""
    root, notes = subject.mirror.root, list(subject.notes)
    if subject.mirror.foreign:
        notes.append(
            "others have written since the index was made; the next merge takes that into the index and changes no row "
            "of it"
        )
    if subject.history is None:
        notes.append(
            "rows cannot be compared with the changelog: the cursor is not in its history. To go on, "
            f"{REBUILD}."
        )
    if root is None or subject.index_files is None:
        if root is not None:
            notes.append("the index cannot be compared: the snapshot that it belongs to has expired")
        return replace(subject, notes=tuple(notes))
    off = compare(root, subject.index_files)
    counts = [f"{file.path}: is not in the index" for file in off.came]
    counts += [f"{root.files[at].path}: is in the index, but not in the table" for at in sorted(off.gone)]
    counts += [
        f"{file.path}: has {file.rows - file.deleted} live rows, the index counts {root.files[at].live}"
        for at, file in off.lost_rows.items()
    ]
    return replace(subject, notes=tuple(notes), findings=(*subject.findings, *finding(Kind.COUNT, counts)))
