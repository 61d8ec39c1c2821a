"""Which columns the mirror has, and which icemirror adds."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from icemirror.settings.section import Name, Section
from icemirror.settings.setting_problems import SettingProblem, find_repeated_names

# Names of Iceberg's metadata columns, which readers add to every table.
RESERVED = frozenset({"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"})


class ColumnSelection(Section):
    """Which columns the mirror has. Values of other columns never reach mirror, index or logs."""

    include: tuple[Name, ...] | None = Field(
        default=None, description="Keep only these columns and the key, by their names in the changelog."
    )
    exclude: tuple[Name, ...] = Field(default=(), description="Keep all columns except these.")

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless there is either include or exclude."""
        if self.include is not None and self.exclude:
            yield SettingProblem(("exclude",), "use either include or exclude, not both")
        if self.include == ():
            yield SettingProblem(("include",), "is empty: remove it to keep all columns")

    def excludes(self, column: str) -> bool:
        """Return whether the mirror lacks this column, or the top-level column that contains it."""
        names = {column, column.split(".", 1)[0]}
        return bool(names & set(self.exclude)) or (self.include is not None and not names & set(self.include))


class MetadataColumns(Section):
    """Columns that icemirror adds to the mirror."""

    synced_at: Name | None = Field(
        default=None, description="Name of a column for the time when a merge last wrote the row."
    )
    source_sequence: Name | None = Field(
        default=None, description="Name of a column for the sequence of the row's last event, as text."
    )
    created_at: Name | None = Field(
        default=None,
        description="Name of a column for the time when the key was first inserted; updates keep it.",
    )

    @property
    def named_columns(self) -> dict[str, str]:
        """The names of the added columns, by their meaning."""
        names = {key: getattr(self, key) for key in ("synced_at", "source_sequence", "created_at")}
        return {key: name for key, name in names.items() if name is not None}

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem for two added columns with the same name."""
        yield from find_repeated_names(list(self.named_columns.items()))
