"""What a commit does to a mirror's columns so that it can hold the rows that come with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Transient
from icemirror.settings import TableSettings
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap, dump_map, field_ids, load_map
from spark_job.columns.own_columns import arrange_own, own_names
from spark_job.iceberg.column_properties import renamed_properties
from spark_job.iceberg.mirror import FIELD_MAP, SOURCE, Mirror
from spark_job.iceberg.next_schema import numbered
from spark_job.schema_changes.evolve import Evolved, Rules, evolve
from spark_job.schema_changes.match_names import match_what_fits
from spark_job.schema_changes.mirror_changes import mirror_changes
from spark_job.schema_changes.row_columns import follows, named_columns, note_of, row_schema
from spark_job.schema_changes.schema_note import SOURCE_SCHEMA, SchemaNote, read_note

_IS_NESSIE = "nessie.is-nessie-catalog"  # what its configuration says of itself
_COMMENT = "comment"  # the table property in which engines keep a table's description


@dataclass(frozen=True)
class Evolution:
    """`schema` becomes the mirror's current one; None: it stays. `changes` and `remarks` say in words what differs.

    `by_others`: what others did to the mirror's columns; `refused`: what cannot be followed. `own`: the columns that
    the mirror has beyond the changelog's, by what they are.
    """

    schema: Schema | None
    field_map: FieldMap
    properties: Mapping[str, str]
    changes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    by_others: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    own: Mapping[str, int] = field(default_factory=dict)

    def applied(self, metadata: TableMetadata) -> TableMetadata:
        """The mirror's metadata as they will be, for those who write its files."""
        schema = self.schema
        if schema is None:
            return metadata
        known = [one for one in metadata.schemas if one.schema_id != schema.schema_id]
        update = {"schemas": [*known, schema], "current_schema_id": schema.schema_id}
        return metadata.model_copy(update=update)


def with_map(settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror) -> Mirror:
    """The mirror with a map from the ids of this very changelog: one that was made anew has others."""
    if follows(mirror.table, changelog.metadata):
        return mirror
    row = row_schema(settings, changelog.schema(), shape.row_ids)
    own = known_own(mirror.table.metadata).values()
    others = Schema(*(one for one in mirror.table.schema().fields if one.field_id not in own))
    return replace(mirror, field_map=match_what_fits(row, others))


def merges_from(mirror: Mirror, changelog: Table) -> bool:
    """Whether what is in the mirror, if anything, came from this changelog, and not from one that was there before."""
    return mirror.cursor is None or mirror.cursor.source.uuid == str(changelog.metadata.table_uuid)


def plan_evolution(
    settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> Evolution:
    """What the mirror needs to take in rows of the changelog as it is now."""
    metadata, before = mirror.table.metadata, mirror.table.schema()
    note = note_of(mirror.table, changelog.metadata)
    if note is not None:
        _require_fresh(settings, changelog.metadata, note)
    row = row_schema(settings, changelog.schema(), shape.row_ids)
    rules = _rules(settings, changelog.metadata, shape, mirror, note)
    evolved = evolve(row, before, mirror.field_map, metadata.last_column_id, rules)
    own = arrange_own(
        evolved.fields,
        own_names(settings),
        known_own(metadata),
        max(metadata.last_column_id, *field_ids(StructType(*evolved.fields))),
        rules.pinned,
    )
    after = before
    if own.fields != before.fields and not own.refused:
        schema = Schema(*own.fields, identifier_field_ids=before.identifier_field_ids)
        after = numbered(metadata, schema)
    noted = SchemaNote(
        changelog_schema=changelog.metadata.current_schema_id,
        newest_schema=_newest(changelog.metadata),
        mirror_schema=after.schema_id,
        comment=changelog.metadata.properties.get(_COMMENT),
        named=named_columns(settings, changelog.metadata, note),
        dropped=evolved.dropped,
        own=dict(own.ids),
    )
    described = _described(settings, note, noted)
    return Evolution(
        schema=None if after is before else after,
        field_map=evolved.field_map,
        properties={
            **(renamed_properties(before, after, metadata.properties) if after is not before else {}),
            **_properties(settings, changelog, mirror, evolved, noted),
            **described,
        },
        changes=evolved.changes,
        remarks=(*evolved.remarks, *own.remarks, *("comment of the table changed" for _ in described)),
        by_others=_by_others(row, changelog.metadata, mirror),
        own=own.ids,
        refused=(
            *evolved.refused,
            *own.refused,
            *(
                ()
                if after is before
                else (*_clashes(metadata.specs(), after), *_not_taken_by(mirror.table.catalog))
            ),
        ),
    )


def known_own(mirror: TableMetadata) -> Mapping[str, int]:
    """The mirror's own columns: what they are → their field ids, whichever changelog was followed."""
    note = read_note(mirror.properties)
    return note.own if note else {}


def foresee(settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror) -> Mirror:
    """The mirror with the columns that the next commit gives it, for those who look at rows that wait."""
    evolution = plan_evolution(settings, changelog, shape, mirror)
    if evolution.refused or evolution.by_others:
        return mirror
    table = copy(mirror.table)
    table.metadata = evolution.applied(table.metadata)
    return replace(mirror, table=table, field_map=evolution.field_map)


def _by_others(row: Schema, changelog: TableMetadata, mirror: Mirror) -> tuple[str, ...]:
    """Where the changelog was made anew, the map tells nothing of what was the mirror's before."""
    metadata, now = mirror.table.metadata, mirror.table.schema()
    note = read_note(metadata.properties)
    if note is not None and note.mirror_schema == now.schema_id:
        return ()
    ours = metadata.schema_by_id(note.mirror_schema) if note else None
    if ours is None and not follows(mirror.table, changelog):
        return ()
    return mirror_changes(row, now, mirror.field_map, ours)


def first_note(settings: TableSettings, changelog: Table, mirror: Schema, own: Mapping[str, int]) -> str:
    """Of a table that becomes the mirror as it is."""
    metadata = changelog.metadata
    note = SchemaNote(
        changelog_schema=metadata.current_schema_id,
        newest_schema=_newest(metadata),
        mirror_schema=mirror.schema_id,
        comment=metadata.properties.get(_COMMENT),
        named=named_columns(settings, metadata, None),
        own=dict(own),
    )
    return note.model_dump_json()


def _require_fresh(settings: TableSettings, changelog: TableMetadata, note: SchemaNote) -> None:
    """A cache or a replica may show the changelog as it was before a change that the mirror has followed."""
    if _newest(changelog) < note.newest_schema:
        raise Transient(
            f"{settings.changelog_id}: the catalog shows it as it was before its schema {note.newest_schema}, of which "
            "the mirror knows; a later look may show more."
        )


def _newest(changelog: TableMetadata) -> int:
    return max(schema.schema_id for schema in changelog.schemas)


def _rules(
    settings: TableSettings,
    changelog: TableMetadata,
    shape: ChangelogShape,
    mirror: Mirror,
    note: SchemaNote | None,
) -> Rules:
    metadata = mirror.table.metadata
    sources = [one.source_id for spec in metadata.partition_specs for one in spec.fields]
    sources += [one.source_id for order in metadata.sort_orders for one in order.fields]
    here = {field.field_id for field in changelog.schema().fields}
    named = named_columns(settings, changelog, note)
    excluded = {one for name in settings.columns.exclude for one in named[name]}
    base = changelog.schema_by_id(note.changelog_schema) if note else None
    return Rules(
        key_ids=frozenset(shape.key_ids),
        pinned=frozenset(sources),
        left_out=frozenset((here - set(shape.row_ids)) | excluded),
        known_dropped=frozenset(note.dropped if note else ()),
        drop=settings.on_dropped_column == "drop",
        has_rows=mirror.head is not None,
        keeps_defaults=metadata.format_version >= 3,
        followed={one.field_id: one for one in _every_field(base.as_struct())} if base else None,
        gone=_gone(changelog, mirror.field_map),
    )


def _gone(changelog: TableMetadata, ids: FieldMap) -> dict[int, NestedField]:
    """Fields that the mirror knows and the changelog has no more, as it had them last."""
    missing = set(ids) - set(field_ids(changelog.schema().as_struct()))
    found: dict[int, NestedField] = {}
    for schema in sorted(changelog.schemas, key=lambda one: one.schema_id, reverse=True) if missing else ():
        there = missing.intersection(field_ids(schema.as_struct())) - found.keys()
        found |= {field_id: schema.find_field(field_id) for field_id in there}
    return found


def _every_field(kind: IcebergType) -> Iterator[NestedField]:
    match kind:
        case StructType():
            for one in kind.fields:
                yield one
                yield from _every_field(one.field_type)
        case ListType():
            yield from _every_field(kind.element_type)
        case MapType():
            yield from _every_field(kind.key_type)
            yield from _every_field(kind.value_type)


def _properties(
    settings: TableSettings, changelog: Table, mirror: Mirror, evolved: Evolved, noted: SchemaNote
) -> dict[str, str]:
    """Only those that change."""
    now = mirror.table.metadata.properties
    wanted = {
        SOURCE: f"{settings.changelog_id} {changelog.metadata.table_uuid}",
        SOURCE_SCHEMA: noted.model_dump_json(),
    }
    if follows(mirror.table, changelog.metadata):
        del wanted[SOURCE]
    if load_map(now[FIELD_MAP]) != evolved.field_map:
        wanted[FIELD_MAP] = dump_map(evolved.field_map)
    return {name: text for name, text in wanted.items() if now.get(name) != text}


def _described(settings: TableSettings, note: SchemaNote | None, noted: SchemaNote) -> dict[str, str]:
    """The changelog's description of the table, where it changed; one in the settings goes first."""
    if _COMMENT in settings.table_properties or noted.comment == (note.comment if note else None):
        return {}
    return {_COMMENT: noted.comment or ""}


def _not_taken_by(catalog: Catalog) -> Iterator[str]:
    """Nessie asks for `last-column-id` with a schema, which the specification has given up and PyIceberg leaves out."""
    if catalog.properties.get(_IS_NESSIE) == "true":
        yield "Nessie takes no changes of columns from PyIceberg"


def _clashes(specs: Mapping[int, PartitionSpec], schema: Schema) -> Iterator[str]:
    """Columns that are called like a partition of another one: engines do not read such a table."""
    names = {field.name: field.field_id for field in schema.fields}
    for spec in specs.values():
        for one in spec.fields:
            same = isinstance(one.transform, IdentityTransform | VoidTransform)
            if one.name in names and not (same and names[one.name] == one.source_id):
                yield f"column {one.name} would be called like a partition of the mirror"
