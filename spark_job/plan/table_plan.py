"""A mirror, its changelog, and the slices of events between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.errors import RECREATE_ADVICE, Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.added_columns import added_name_conflict
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.delete_mode import delete_mode_conflict
from spark_job.plan.row_columns import row_schema
from spark_job.plan.schema_evolution import SchemaEvolution, plan_evolution
from spark_job.plan.slices import Slice


@dataclass(frozen=True)
class TablePlan:
    """A table with its unmerged slices.

    - `snapshot_ids`: the changelog snapshots that the slices come from, oldest first.
    - `is_stage`: the mirror is the hidden stage of a rebuild.
    - `replaced_mirror`: the mirror that the stage will replace, if it is readable.
    - `deferred_paths`: unmerged files that are in no slice, because they are merged after the swap.
    """

    table_settings: TableSettings
    changelog: Table
    shape: ChangelogShape
    mirror: Mirror | None
    slices: tuple[Slice, ...]
    snapshot_ids: tuple[int, ...]
    is_stage: bool = False
    replaced_mirror: Mirror | None = None
    deferred_paths: frozenset[str] = frozenset()

    @cached_property
    def evolution(self) -> SchemaEvolution | None:
        """The schema changes that the mirror needs for the changelog's rows; None if it is created with them."""
        if self.mirror is None:
            return None
        return plan_evolution(self.table_settings, self.changelog, self.shape, self.mirror)

    @property
    def new_schema(self) -> Schema:
        """The schema of a mirror that is created now."""
        return self._new_schema_and_field_map[0]

    @property
    def new_field_map(self) -> FieldMap:
        """The field map from the changelog to `new_schema`."""
        return self._new_schema_and_field_map[1]

    @property
    def _new_schema_and_field_map(self) -> tuple[Schema, FieldMap]:
        return mirror_schema(self._row_schema, self.shape.row_ids, self.shape.key_ids)

    @property
    def _row_schema(self) -> Schema:
        return row_schema(self.table_settings, self.changelog.schema(), self.shape.row_ids)

    @property
    def schema_changes(self) -> tuple[str, ...]:
        """Differences between the changelog's columns and the mirror's, as text."""
        evolution = self.evolution
        if evolution is None:
            return ()
        return (
            *(f"in the mirror: {change}" for change in evolution.foreign_changes),
            *evolution.changes,
            *evolution.remarks,
            *evolution.refused,
        )

    @property
    def refusal(self) -> str | None:
        """Why the mirror cannot follow the changelog's columns, or may not by policy; None if it can."""
        evolution, table_settings = self.evolution, self.table_settings
        if evolution is None:
            return None
        if (conflict := delete_mode_conflict(table_settings, self.mirror)) is not None:
            return conflict
        if (conflict := added_name_conflict(table_settings, self._row_schema)) is not None:
            return conflict
        if evolution.foreign_changes:
            foreign_changes = "; ".join(evolution.foreign_changes)
            return (
                f"{table_settings.name}: another engine changed the mirror's columns ({foreign_changes}); "
                "nothing was merged. Drop added columns and revert changed ones; if a column was dropped, "
                f"{RECREATE_ADVICE}."
            )
        if evolution.refused:
            return (
                f"{table_settings.changelog_id}: its schema changed in a way that no mirror can follow "
                f"({'; '.join(evolution.refused)}); nothing was merged. Change it back, or leave the column out with "
                f"`columns: {{exclude: […]}}`, or {RECREATE_ADVICE}."
            )
        if evolution.changes and table_settings.schema_policy == "strict":
            return (
                f"{table_settings.changelog_id}: its schema changed ({'; '.join(evolution.changes)}), and "
                "schema_policy is strict; nothing was merged. To accept it, set schema_policy: permissive for "
                f"{table_settings.name} until the next merge. To reject it, revert the schema."
            )
        return None

    def require_allowed_schema_change(self) -> None:
        """Raise if the mirror cannot follow the changelog's columns, or its policy forbids it."""
        if (refusal := self.refusal) is not None:
            raise Invalid(refusal)

    @property
    def unmerged_paths(self) -> frozenset[str]:
        """Paths of the changelog files after the cursor."""
        return frozenset(file.path for file in self.unmerged_files) | self.deferred_paths

    @property
    def unmerged_files(self) -> tuple[ChangelogFile, ...]:
        """The changelog files of all slices, in the order of their events."""
        return tuple(file for slice_ in self.slices for file in slice_.files)
