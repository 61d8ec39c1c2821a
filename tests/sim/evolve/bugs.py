"""Mistakes that this simulation must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate

from spark_job import pipeline
from spark_job.plan import evolve_columns, schema_evolution
from spark_job.plan.schema_evolution import SchemaEvolution
from tests.sim.engine.planting import PlantedMistake


def _columns_mapped_by_name(old: Any) -> Any:
    def by_name(changelog: Schema, mirror: Schema, _ids: Any, last_id: int, rules: Any) -> Any:
        names = {one.name: one.field_id for one in mirror.fields}
        found = {one.field_id: names[one.name] for one in changelog.fields if one.name in names}
        return old(changelog, mirror, {**_ids, **found}, last_id, rules)

    return by_name


def _old_schema_used_for_rows(_old: Any) -> Any:
    return lambda _self, metadata: metadata


def _schema_change_committed_apart(old: Any) -> Any:
    def apart(uncommitted: Any, *more: Any) -> Any:
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

    return apart


def _dropped_values_come_back_under_their_name(old: Any) -> Any:
    def reused(changelog: Schema, mirror: Schema, ids: Any, last_id: int, rules: Any) -> Any:
        live = {one.field_id for one in changelog.fields}
        names = {one.name: one.field_id for one in mirror.fields}
        dropped = {target for source, target in ids.items() if source not in live}
        again = {
            one.field_id: names[one.name]
            for one in changelog.fields
            if one.field_id not in ids and names.get(one.name) in dropped
        }
        return old(changelog, mirror, {**ids, **again}, last_id, rules)

    return reused


def _widened_column_written_narrow(old: Any) -> Any:
    def narrow(self: SchemaEvolution, metadata: Any) -> Any:
        after, before = old(self, metadata), {one.field_id: one for one in metadata.schema().fields}
        fields = [
            one.model_copy(update={"field_type": before[one.field_id].field_type})
            if one.field_id in before
            else one
            for one in after.schema().fields
        ]
        schema = Schema(
            *fields,
            schema_id=after.current_schema_id,
            identifier_field_ids=after.schema().identifier_field_ids,
        )
        others = [one for one in after.schemas if one.schema_id != schema.schema_id]
        return after.model_copy(update={"schemas": [*others, schema]})

    return narrow


def _dropped_columns_forgotten(old: Any) -> Any:
    """Values in older files are lost, so that rows depend on when they are merged."""

    def forget(changelog: Schema, mirror: Schema, ids: Any, last_id: int, rules: Any) -> Any:
        evolved = old(changelog, mirror, ids, last_id, rules)
        kept = {
            source: target for source, target in evolved.field_map.items() if source not in evolved.dropped
        }
        return replace(evolved, field_map=kept)

    return forget


def _ids_given_again(old: Any) -> Any:
    def again(changelog: Schema, mirror: Schema, ids: Any, _last_id: int, rules: Any) -> Any:
        return old(changelog, mirror, ids, mirror.highest_field_id, rules)

    return again


def _keeps_a_dropped_column_required(left: Any) -> Any:
    def required(self: Any, old: Any, *more: Any) -> Any:
        kept = left(self, old, *more)
        return kept and kept.model_copy(update={"required": old.required})

    return required


_PLACES: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "columns mapped by name": (schema_evolution, "evolve_columns", _columns_mapped_by_name),
    "old schema used for rows": (SchemaEvolution, "applied", _old_schema_used_for_rows),
    "schema change committed apart from the rows": (
        pipeline,
        "commit_slice",
        _schema_change_committed_apart,
    ),
    "dropped values come back under their name": (
        schema_evolution,
        "evolve_columns",
        _dropped_values_come_back_under_their_name,
    ),
    "widened column written narrow": (SchemaEvolution, "applied", _widened_column_written_narrow),
    "dropped columns forgotten": (schema_evolution, "evolve_columns", _dropped_columns_forgotten),
    "field ids given again": (schema_evolution, "evolve_columns", _ids_given_again),
    "dropped column stays required": (evolve_columns._Evolver, "_dropped", _keeps_a_dropped_column_required),
}

BUGS = {name: PlantedMistake((place,)) for name, place in _PLACES.items()}
