"""Computes how a mirror's columns follow its changelog's: by field id, at any depth. Reads and writes nothing.

A column that the changelog drops is kept, and is NULL in rows of files without it. Values are matched by field id, so
values in older files are still merged: the content of a row does not depend on when it is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from spark_job.columns.field_map import FieldMap, field_ids


@dataclass(frozen=True)
class EvolutionRules:
    """What the mirror and its settings allow. Field ids are those of the changelog, unless stated otherwise.

    - `pinned`: fields of the mirror that must stay, because it is partitioned or sorted by them.
    - `has_rows`: rows exist that never had a new column. `keeps_defaults`: the format stores their default for it.
    - `excluded`: fields that the settings exclude.
    - `known_dropped`: fields that were reported as dropped before.
    - `drops_columns`: columns that the changelog drops are dropped from the mirror too.
    - `followed`: the changelog's fields as they were last followed, by id and in order, if known. Order and comments
      change in the mirror only if they changed there.
    - `dropped_fields`: fields that the changelog dropped, by id, as it had them last: files may still have these types.
    """

    key_ids: frozenset[int]
    pinned: frozenset[int] = frozenset()
    excluded: frozenset[int] = frozenset()
    known_dropped: frozenset[int] = frozenset()
    drops_columns: bool = False
    has_rows: bool = True
    keeps_defaults: bool = False
    followed: Mapping[int, NestedField] | None = None
    dropped_fields: Mapping[int, NestedField] = field(default_factory=dict)


@dataclass(frozen=True)
class EvolvedColumns:
    """The mirror's next columns, and descriptions: `changes`, `remarks` about comments, and what is `refused`."""

    fields: tuple[NestedField, ...]
    field_map: FieldMap
    dropped: tuple[int, ...]
    changes: tuple[str, ...]
    remarks: tuple[str, ...]
    refused: tuple[str, ...]


def evolve_columns(
    changelog: Schema, mirror_schema: Schema, field_map: FieldMap, last_id: int, rules: EvolutionRules
) -> EvolvedColumns:
    """Return the mirror's next columns.

    `changelog`: the row's columns with the mirror's names. `field_map`: the map so far. `last_id`: the
    highest field id that the mirror ever had.
    """
    evolver = _Evolver(dict(field_map), rules, count(last_id + 1).__next__)
    fields = evolver.evolve_struct(changelog.fields, mirror_schema.fields, "")
    mirror_ids = set(field_ids(StructType(*fields)))
    changelog_ids = set(field_ids(changelog.as_struct()))
    next_field_map = {
        source_id: mirror_id for source_id, mirror_id in evolver.field_map.items() if mirror_id in mirror_ids
    }
    return EvolvedColumns(
        fields=fields,
        field_map=next_field_map,
        dropped=tuple(sorted(next_field_map.keys() - changelog_ids)),
        changes=tuple(evolver.changes),
        remarks=tuple(evolver.remarks),
        refused=tuple(evolver.refused),
    )


def can_promote(old: IcebergType, new: IcebergType) -> bool:
    """Return whether Iceberg can promote the old type to the new one."""
    match old, new:
        case IntegerType(), LongType():
            return True
        case FloatType(), DoubleType():
            return True
        case DecimalType(), DecimalType():
            return old.scale == new.scale and old.precision < new.precision
        case _:
            return False


@dataclass
class _Evolver:
    """Evolves the fields of the mirror, and collects descriptions. `field_map`: new fields are added to it.

    `parent` is the dotted path of the struct that contains a field, "" for a column.
    """

    field_map: dict[int, int]
    rules: EvolutionRules
    next_id: Callable[[], int]
    changes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.followed_positions = {
            field_id: position for position, field_id in enumerate(self.rules.followed or ())
        }
        self.source_ids: dict[int, list[int]] = {}  # by field id of the mirror
        for source_id, mirror_id in self.field_map.items():
            self.source_ids.setdefault(mirror_id, []).append(source_id)

    def evolve_struct(
        self, new_fields: Sequence[NestedField], old_fields: Sequence[NestedField], parent: str
    ) -> tuple[NestedField, ...]:
        """Return the fields of a struct, or the columns: those of the changelog, then those that it does not have."""
        old_by_id = {old.field_id: old for old in old_fields}
        pairs = [(new, old_by_id.get(self.field_map.get(new.field_id, -1))) for new in new_fields]
        evolved = {
            old.field_id: self._evolve_field(new, old, parent) for new, old in pairs if old is not None
        }
        if self._order_changed([new.field_id for new, old in pairs if old is not None], list(old_by_id)):
            self.changes.append(
                f"fields of {parent} in another order" if parent else "columns in another order"
            )
            fields = list(evolved.values())
        else:
            fields = [evolved[old.field_id] for old in old_fields if old.field_id in evolved]
        fields = self._insert_new_fields(fields, pairs, parent)
        used_names = {field.name for field in fields}
        for old in old_fields:
            if old.field_id in evolved:
                continue
            dropped = self._keep_dropped_field(old, used_names, parent)
            if dropped is not None:
                used_names.add(dropped.name)
                fields.append(dropped)
        return tuple(fields)

    def _insert_new_fields(
        self, fields: list[NestedField], pairs: Sequence[tuple[NestedField, NestedField | None]], parent: str
    ) -> list[NestedField]:
        """Insert new fields after the same field as in the changelog."""
        new_after: dict[int | None, list[NestedField]] = {}
        previous_id: int | None = None
        for new, old in pairs:
            if old is None:
                new_after.setdefault(previous_id, []).append(self._new_field(new, parent))
            else:
                previous_id = old.field_id
        if not new_after:
            return fields
        first = new_after.get(None, ())
        return [*first, *chain(*((field, *new_after.get(field.field_id, ())) for field in fields))]

    def _order_changed(self, source_ids: list[int], mirror_ids: list[int]) -> bool:
        """Return whether the changelog has these fields in another order than when it was last followed."""
        if self.rules.followed is None and not self.rules.has_rows:  # created by icemirror, and still empty
            positions = [mirror_ids.index(self.field_map[source_id]) for source_id in source_ids]
        else:
            followed = self.followed_positions
            positions = [followed[source_id] for source_id in source_ids if source_id in followed]
        return positions != sorted(positions)

    def _new_field(self, new: NestedField, parent: str) -> NestedField:
        """Return a new field; it is optional, because existing rows do not have it."""
        name = _join_path(parent, new.name)
        self.changes.append(f"new column {name} ({new.field_type})")
        default = new.initial_default
        if default is not None and self.rules.has_rows and not self.rules.keeps_defaults:
            self.refused.append(
                f"new column {name} has a default, which existing rows can have from format version 3 on"
            )
        defaults: dict[str, Any] = {}  # Any: of the column's type
        if default is not None and self.rules.keeps_defaults:
            defaults = {"initial_default": default, "write_default": default}
        return NestedField(
            self._assign_id(new.field_id),
            new.name,
            self._with_new_ids(new.field_type),
            doc=new.doc,
            **defaults,
        )

    def _assign_id(self, source_id: int) -> int:
        self.field_map[source_id] = self.next_id()
        return self.field_map[source_id]

    def _with_new_ids(self, source_type: IcebergType) -> IcebergType:
        """Return the type with new field ids of the mirror."""
        match source_type:
            case StructType():
                ids = [self._assign_id(child.field_id) for child in source_type.fields]
                return StructType(
                    *(
                        NestedField(
                            field_id,
                            child.name,
                            self._with_new_ids(child.field_type),
                            child.required,
                            child.doc,
                        )
                        for field_id, child in zip(ids, source_type.fields, strict=True)
                    )
                )
            case ListType():
                return ListType(
                    self._assign_id(source_type.element_id),
                    self._with_new_ids(source_type.element_type),
                    source_type.element_required,
                )
            case MapType():
                key, value = self._assign_id(source_type.key_id), self._assign_id(source_type.value_id)
                return MapType(
                    key,
                    self._with_new_ids(source_type.key_type),
                    value,
                    self._with_new_ids(source_type.value_type),
                    source_type.value_required,
                )
            case _:
                return source_type

    def _evolve_field(self, new: NestedField, old: NestedField, parent: str) -> NestedField:
        name = _join_path(parent, new.name)
        if new.name != old.name:
            self.changes.append(f"column {_join_path(parent, old.name)} renamed to {new.name}")
        field_type = self._evolve_type(new.field_type, old.field_type, name)
        required = old.required and (new.required or new.field_id in self.rules.key_ids)
        if required != old.required:
            self.changes.append(f"column {name} may now be NULL")
        doc = self._choose_comment(new, old)
        if doc != old.doc:
            self.remarks.append(f"comment of column {name} changed")
        if (new.name, field_type, required, doc) == (old.name, old.field_type, old.required, old.doc):
            return old
        update = {"name": new.name, "field_type": field_type, "required": required, "doc": doc}
        return old.model_copy(update=update)

    def _choose_comment(self, new: NestedField, old: NestedField) -> str | None:
        """Return the changelog's comment if it changed; otherwise the mirror's, which a user may have written."""
        followed = (self.rules.followed or {}).get(new.field_id)
        if followed is None:
            return new.doc or old.doc
        return old.doc if followed.doc == new.doc else new.doc

    def _evolve_type(self, new: IcebergType, old: IcebergType, name: str) -> IcebergType:
        match new, old:
            case StructType(), StructType():
                fields = self.evolve_struct(new.fields, old.fields, name)
                return old if fields == old.fields else StructType(*fields)
            case ListType(), ListType():
                self.field_map[new.element_id] = old.element_id
                element = self._evolve_type(new.element_type, old.element_type, f"{name}.element")
                required = self._relax_required(new.element_required, old.element_required, f"{name}.element")
                return ListType(old.element_id, element, required)
            case MapType(), MapType():
                self.field_map |= {new.key_id: old.key_id, new.value_id: old.value_id}
                self._require_same_keys(new, old, name)
                value = self._evolve_type(new.value_type, old.value_type, f"{name}.value")
                required = self._relax_required(new.value_required, old.value_required, f"{name}.value")
                return MapType(old.key_id, old.key_type, old.value_id, value, required)
            case _:
                return self._evolve_primitive(new, old, name)

    def _evolve_primitive(self, new: IcebergType, old: IcebergType, name: str) -> IcebergType:
        if new == old:
            return old
        change = f"column {name} changed from {old} to {new}"
        if can_promote(old, new):
            self.changes.append(change)
            return new
        reason = "is narrower" if can_promote(new, old) else "Iceberg cannot promote"
        self.refused.append(f"{change}, which {reason}")
        return old

    def _relax_required(self, new: bool, old: bool, name: str) -> bool:
        if old and not new:
            self.changes.append(f"column {name} may now be NULL")
        return old and new

    def _require_same_keys(self, new: MapType, old: MapType, name: str) -> None:
        """Refuse changed map keys: two keys could become equal."""
        # The trial shares `field_map`, so it maps the fields of an unchanged key.
        # A changed key is refused with the commit.
        trial = _Evolver(self.field_map, self.rules, self.next_id)
        if trial._evolve_type(new.key_type, old.key_type, f"{name}.key") != old.key_type or trial.refused:
            self.refused.append(f"the keys of the map {name} changed from {old.key_type} to {new.key_type}")

    def _keep_dropped_field(self, old: NestedField, used_names: Set[str], parent: str) -> NestedField | None:
        """Return a field of the mirror that the changelog dropped or never had; None if the mirror drops it too."""
        source_ids = self.source_ids.get(old.field_id, ())
        name = _join_path(parent, old.name)
        if self.rules.excluded.intersection(source_ids):
            if old.field_id in self.rules.pinned:
                self.refused.append(
                    f"column {name} is excluded, but the mirror is partitioned or sorted by it"
                )
            self.remarks.append(f"column {name} is excluded from the mirror (columns)")
            return None
        if source_ids and not self.rules.known_dropped.intersection(source_ids):
            self.changes.append(f"column {name} dropped")
        pinned = self.rules.pinned.intersection((old.field_id, *field_ids(old.field_type)))
        if source_ids and self.rules.drops_columns and not pinned:
            return None
        field_type = self._promote_dropped_type(old.field_id, old.field_type, name)
        if old.name not in used_names and not old.required and field_type == old.field_type:
            return old
        new_name = self._choose_unused_name(old, used_names, parent)
        update = {"name": new_name, "required": False, "field_type": field_type}
        return old.model_copy(update=update)

    def _promote_dropped_type(self, field_id: int, old: IcebergType, name: str) -> IcebergType:
        """Return the type of a dropped field as it was promoted last: rows from before the drop may be merged later."""
        match old:
            case StructType():
                fields = [
                    child.model_copy(
                        update={
                            "field_type": self._promote_dropped_type(
                                child.field_id, child.field_type, f"{name}.{child.name}"
                            )
                        }
                    )
                    for child in old.fields
                ]
                return StructType(*fields)
            case ListType():
                element = self._promote_dropped_type(old.element_id, old.element_type, f"{name}.element")
                return ListType(old.element_id, element, old.element_required)
            case MapType():
                value = self._promote_dropped_type(old.value_id, old.value_type, f"{name}.value")
                return MapType(old.key_id, old.key_type, old.value_id, value, old.value_required)
            case _:
                dropped_fields = [
                    self.rules.dropped_fields[source_id]
                    for source_id in self.source_ids.get(field_id, ())
                    if source_id in self.rules.dropped_fields
                ]
                if not dropped_fields:
                    return old
                return self._evolve_primitive(dropped_fields[0].field_type, old, name)

    def _choose_unused_name(self, old: NestedField, used_names: Set[str], parent: str) -> str:
        """Return the name of a dropped column, or a new one if another column has its name now."""
        if old.name not in used_names:
            return old.name
        name = f"{old.name}_dropped_{old.field_id}"
        while name in used_names:
            name += "_"
        self.changes.append(f"column {_join_path(parent, old.name)}, which was dropped, renamed to {name}")
        return name


def _join_path(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name
