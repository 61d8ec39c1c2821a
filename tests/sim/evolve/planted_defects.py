"""Planted defects that this simulation must detect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate

from spark_job import pipeline
from spark_job.plan import evolve_columns, schema_evolution
from spark_job.plan.schema_evolution import SchemaEvolution
from tests.sim.engine.planting import PlantedDefect


def _columns_mapped_by_name(old: Any) -> Any:
    def by_name(changelog: Schema, mirror: Schema, _ids: Any, last_id: int, rules: Any) -> Any:
        names = {field.name: field.field_id for field in mirror.fields}
        found = {field.field_id: names[field.name] for field in changelog.fields if field.name in names}
        return old(changelog, mirror, {**_ids, **found}, last_id, rules)

    return by_name


def _old_schema_used_for_rows(_old: Any) -> Any:
    return lambda _self, metadata: metadata


def _schema_change_committed_separately(old: Any) -> Any:
    def separately(uncommitted: Any, *more: Any) -> Any:
        *rest, following = more
        if following is None or following.schema is None:
            return old(uncommitted, *more)
        updates = (
            AddSchemaUpdate.model_validate({"schema": following.schema}),
            SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
            SetPropertiesUpdate(updates=dict(following.properties)),
        )
        mirror, table = uncommitted.mirror, uncommitted.mirror.table
        table.catalog.commit_table(table, (), updates)
        fresh = table.catalog.load_table(table.name())
        return old(replace(uncommitted, mirror=replace(mirror, table=fresh)), *rest, None)

    return separately


def _dropped_values_come_back_under_their_name(old: Any) -> Any:
    def reused(changelog: Schema, mirror: Schema, ids: Any, last_id: int, rules: Any) -> Any:
        live = {field.field_id for field in changelog.fields}
        names = {field.name: field.field_id for field in mirror.fields}
        dropped = {target for source, target in ids.items() if source not in live}
        again = {
            field.field_id: names[field.name]
            for field in changelog.fields
            if field.field_id not in ids and names.get(field.name) in dropped
        }
        return old(changelog, mirror, {**ids, **again}, last_id, rules)

    return reused


def _widened_column_written_narrow(old: Any) -> Any:
    def narrow(self: SchemaEvolution, metadata: Any) -> Any:
        after, before = old(self, metadata), {field.field_id: field for field in metadata.schema().fields}
        fields = [
            field.model_copy(update={"field_type": before[field.field_id].field_type})
            if field.field_id in before
            else field
            for field in after.schema().fields
        ]
        schema = Schema(
            *fields,
            schema_id=after.current_schema_id,
            identifier_field_ids=after.schema().identifier_field_ids,
        )
        others = [known for known in after.schemas if known.schema_id != schema.schema_id]
        return after.model_copy(update={"schemas": [*others, schema]})

    return narrow


def _dropped_columns_forgotten(old: Any) -> Any:
    """Loses values of older files, so that rows depend on when they are merged."""

    def forget(changelog: Schema, mirror: Schema, ids: Any, last_id: int, rules: Any) -> Any:
        evolved = old(changelog, mirror, ids, last_id, rules)
        kept = {
            source: target for source, target in evolved.field_map.items() if source not in evolved.dropped
        }
        return replace(evolved, field_map=kept)

    return forget


def _ids_reused(old: Any) -> Any:
    def again(changelog: Schema, mirror: Schema, ids: Any, _last_id: int, rules: Any) -> Any:
        return old(changelog, mirror, ids, mirror.highest_field_id, rules)

    return again


def _keeps_a_dropped_column_required(dropped: Any) -> Any:
    def required(self: Any, old: Any, *more: Any) -> Any:
        kept = dropped(self, old, *more)
        return kept and kept.model_copy(update={"required": old.required})

    return required


_PATCHES: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "columns mapped by name": (schema_evolution, "evolve_columns", _columns_mapped_by_name),
    "old schema used for rows": (SchemaEvolution, "apply_to", _old_schema_used_for_rows),
    "schema change committed apart from the rows": (
        pipeline,
        "commit_slice",
        _schema_change_committed_separately,
    ),
    "dropped values come back under their name": (
        schema_evolution,
        "evolve_columns",
        _dropped_values_come_back_under_their_name,
    ),
    "widened column written narrow": (SchemaEvolution, "apply_to", _widened_column_written_narrow),
    "dropped columns forgotten": (schema_evolution, "evolve_columns", _dropped_columns_forgotten),
    "field ids given again": (schema_evolution, "evolve_columns", _ids_reused),
    "dropped column stays required": (
        evolve_columns._Evolver,
        "_keep_dropped_field",
        _keeps_a_dropped_column_required,
    ),
}

PLANTED = {name: PlantedDefect((patch,)) for name, patch in _PATCHES.items()}
