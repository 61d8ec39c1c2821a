"""Compute how a mirror's columns follow its changelog's: by field id, at any depth. Pure.

A column that the changelog drops is kept, and is NULL in rows of files without it. Values are matched by field id, so
values in older files are still merged: the content of a row does not depend on when it is merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
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

_OTHER_ORDER = "columns in another order"


@dataclass(frozen=True)
class EvolutionRules:
    """What the mirror and its settings allow.

    - `pinned`: fields of the mirror that must stay, because it is partitioned or sorted by them.
    - `has_rows`: rows exist that never had a new column. `keeps_defaults`: the format stores their default for it.
    - `excluded`: field ids of the changelog that the settings exclude.
    - `known_dropped`: field ids that were reported as dropped before.
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
    changelog: Schema, mirror: Schema, ids: FieldMap, last_id: int, rules: EvolutionRules
) -> EvolvedColumns:
    """Return the mirror's next columns.

    `changelog`: the row's columns with the mirror's names. `ids`: the field map so far.
    """
    evolver = _Evolver(dict(ids), rules, count(last_id + 1).__next__)
    fields = evolver.struct(changelog.fields, mirror.fields, "")
    present = set(field_ids(StructType(*fields)))
    current = set(field_ids(changelog.as_struct()))
    kept = {source: target for source, target in evolver.ids.items() if target in present}
    return EvolvedColumns(
        fields=fields,
        field_map=kept,
        dropped=tuple(sorted(source for source in kept if source not in current)),
        changes=tuple(evolver.changes),
        remarks=tuple(evolver.remarks),
        refused=tuple(evolver.refused),
    )


def can_promote(before: IcebergType, after: IcebergType) -> bool:
    """Return whether Iceberg can promote one type to the other."""
    match before, after:
        case IntegerType(), LongType():
            return True
        case FloatType(), DoubleType():
            return True
        case DecimalType(), DecimalType():
            return before.scale == after.scale and before.precision < after.precision
        case _:
            return False


@dataclass
class _Evolver:
    """Evolves the fields of the mirror, and collects descriptions on the way."""

    ids: dict[int, int]
    rules: EvolutionRules
    next_id: Callable[[], int]
    changes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.followed_order = {field_id: number for number, field_id in enumerate(self.rules.followed or ())}
        self.sources: dict[int, list[int]] = {}
        for source, target in self.ids.items():
            self.sources.setdefault(target, []).append(source)

    def struct(
        self, source: Sequence[NestedField], target: Sequence[NestedField], within: str
    ) -> tuple[NestedField, ...]:
        """Return the fields of a struct, or the columns: those of the changelog, then those that it does not have."""
        known = {field.field_id: field for field in target}
        pairs = [(new, known.get(self.ids.get(new.field_id, -1))) for new in source]
        same = {old.field_id: self._evolve_field(new, old, within) for new, old in pairs if old is not None}
        if self._order_changed([new.field_id for new, old in pairs if old is not None], list(known)):
            self.changes.append(f"fields of {within[:-1]} in another order" if within else _OTHER_ORDER)
            fields = list(same.values())
        else:
            fields = [same[old.field_id] for old in target if old.field_id in same]
        fields = self._with_new(fields, pairs, within)
        taken = Counter(field.name for field in fields)
        for old in target:
            if old.field_id not in same and (kept := self._dropped(old, taken, within)) is not None:
                taken[kept.name] += 1
                fields.append(kept)
        return tuple(fields)

    def _with_new(
        self, fields: list[NestedField], pairs: Sequence[tuple[NestedField, NestedField | None]], within: str
    ) -> list[NestedField]:
        """Insert new fields after the same field as in the changelog."""
        after: dict[int | None, list[NestedField]] = {}
        last: int | None = None
        for new, old in pairs:
            if old is None:
                after.setdefault(last, []).append(self._new(new, within))
            else:
                last = old.field_id
        if not after:
            return fields
        arranged = [
            arranged_field for field in fields for arranged_field in (field, *after.get(field.field_id, ()))
        ]
        return [*after.get(None, ()), *arranged]

    def _order_changed(self, source: list[int], target: list[int]) -> bool:
        """Return whether the changelog has these fields in another order than when it was last followed."""
        if self.rules.followed is None and not self.rules.has_rows:  # created by icemirror, and still empty
            order = [target.index(self.ids[field_id]) for field_id in source]
        else:
            order = [self.followed_order[field_id] for field_id in source if field_id in self.followed_order]
        return order != sorted(order)

    def _new(self, new: NestedField, within: str) -> NestedField:
        """Return a new field; it is optional, because existing rows do not have it."""
        name = within + new.name
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

    def _assign_id(self, source: int) -> int:
        self.ids[source] = self.next_id()
        return self.ids[source]

    def _with_new_ids(self, kind: IcebergType) -> IcebergType:
        """Return the type with new field ids of the mirror."""
        match kind:
            case StructType():
                ids = [self._assign_id(child.field_id) for child in kind.fields]
                return StructType(
                    *(
                        NestedField(
                            field_id,
                            child.name,
                            self._with_new_ids(child.field_type),
                            child.required,
                            child.doc,
                        )
                        for field_id, child in zip(ids, kind.fields, strict=True)
                    )
                )
            case ListType():
                return ListType(
                    self._assign_id(kind.element_id),
                    self._with_new_ids(kind.element_type),
                    kind.element_required,
                )
            case MapType():
                key, value = self._assign_id(kind.key_id), self._assign_id(kind.value_id)
                return MapType(
                    key,
                    self._with_new_ids(kind.key_type),
                    value,
                    self._with_new_ids(kind.value_type),
                    kind.value_required,
                )
            case _:
                return kind

    def _evolve_field(self, new: NestedField, old: NestedField, within: str) -> NestedField:
        name = within + new.name
        if new.name != old.name:
            self.changes.append(f"column {within}{old.name} renamed to {new.name}")
        kind = self._evolve_type(new.field_type, old.field_type, name)
        required = old.required and (new.required or new.field_id in self.rules.key_ids)
        if required != old.required:
            self.changes.append(f"column {name} may now be NULL")
        doc = self._doc(new, old)
        if doc != old.doc:
            self.remarks.append(f"comment of column {name} changed")
        if (new.name, kind, required, doc) == (old.name, old.field_type, old.required, old.doc):
            return old
        update = {"name": new.name, "field_type": kind, "required": required, "doc": doc}
        return old.model_copy(update=update)

    def _doc(self, new: NestedField, old: NestedField) -> str | None:
        """Return the changelog's comment if it changed; otherwise the mirror's, which a user may have written."""
        before = (self.rules.followed or {}).get(new.field_id)
        if before is None:
            return new.doc or old.doc
        return old.doc if before.doc == new.doc else new.doc

    def _evolve_type(self, new: IcebergType, old: IcebergType, name: str) -> IcebergType:
        match new, old:
            case StructType(), StructType():
                fields = self.struct(new.fields, old.fields, f"{name}.")
                return old if fields == old.fields else StructType(*fields)
            case ListType(), ListType():
                self.ids[new.element_id] = old.element_id
                element = self._evolve_type(new.element_type, old.element_type, f"{name}.element")
                required = self._now_optional(new.element_required, old.element_required, f"{name}.element")
                return ListType(old.element_id, element, required)
            case MapType(), MapType():
                self.ids |= {new.key_id: old.key_id, new.value_id: old.value_id}
                self._require_same_keys(new, old, name)
                value = self._evolve_type(new.value_type, old.value_type, f"{name}.value")
                required = self._now_optional(new.value_required, old.value_required, f"{name}.value")
                return MapType(old.key_id, old.key_type, old.value_id, value, required)
            case _:
                return self._primitive(new, old, name)

    def _primitive(self, new: IcebergType, old: IcebergType, name: str) -> IcebergType:
        if new == old:
            return old
        change = f"column {name} changed from {old} to {new}"
        if can_promote(old, new):
            self.changes.append(change)
            return new
        why = "narrower" if can_promote(new, old) else "no wider type of the same kind"
        self.refused.append(f"{change}, which is {why}")
        return old

    def _now_optional(self, new: bool, old: bool, name: str) -> bool:
        if old and not new:
            self.changes.append(f"column {name} may now be NULL")
        return old and new

    def _require_same_keys(self, new: MapType, old: MapType, name: str) -> None:
        """Refuse changed map keys: two keys could become equal."""
        trial = _Evolver(self.ids, self.rules, self.next_id)
        if trial._evolve_type(new.key_type, old.key_type, f"{name}.key") != old.key_type or trial.refused:
            self.refused.append(f"the keys of the map {name} changed from {old.key_type} to {new.key_type}")

    def _dropped(self, old: NestedField, taken: Counter[str], within: str) -> NestedField | None:
        """Return a field of the mirror that the changelog dropped or never had; None if it leaves the mirror."""
        sources = self.sources.get(old.field_id, ())
        name = within + old.name
        if self.rules.excluded.intersection(sources):
            if old.field_id in self.rules.pinned:
                self.refused.append(
                    f"column {name} is excluded, but the mirror is partitioned or sorted by it"
                )
            self.remarks.append(f"column {name} is excluded from the mirror (columns)")
            return None
        if sources and not self.rules.known_dropped.intersection(sources):
            self.changes.append(f"column {name} dropped")
        pinned = self.rules.pinned.intersection((old.field_id, *field_ids(old.field_type)))
        if sources and self.rules.drops_columns and not pinned:
            return None
        kind = self._promoted(old.field_id, old.field_type, name)
        if old.name not in taken and not old.required and kind == old.field_type:
            return old
        update = {"name": self._free_name(old, taken, within), "required": False, "field_type": kind}
        return old.model_copy(update=update)

    def _promoted(self, field_id: int, old: IcebergType, name: str) -> IcebergType:
        """Return the type of a dropped field as it was promoted last: rows from before the drop may be merged later."""
        match old:
            case StructType():
                fields = [
                    child.model_copy(
                        update={
                            "field_type": self._promoted(
                                child.field_id, child.field_type, f"{name}.{child.name}"
                            )
                        }
                    )
                    for child in old.fields
                ]
                return StructType(*fields)
            case ListType():
                element = self._promoted(old.element_id, old.element_type, f"{name}.element")
                return ListType(old.element_id, element, old.element_required)
            case MapType():
                value = self._promoted(old.value_id, old.value_type, f"{name}.value")
                return MapType(old.key_id, old.key_type, old.value_id, value, old.value_required)
            case _:
                sources = self.sources.get(field_id, ())
                last = [
                    self.rules.dropped_fields[source]
                    for source in sources
                    if source in self.rules.dropped_fields
                ]
                return self._primitive(last[0].field_type, old, name) if last else old

    def _free_name(self, old: NestedField, taken: Counter[str], within: str) -> str:
        """Return the name of a dropped column: its own, or a new one if another column has it now."""
        if old.name not in taken:
            return old.name
        name = f"{old.name}_dropped_{old.field_id}"
        while name in taken:
            name += "_"
        self.changes.append(f"column {within}{old.name}, which was dropped, renamed to {name}")
        return name
