"""One changelog and its mirror."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from icemirror.settings.section import Name, Section
from icemirror.settings.setting_problems import SettingProblem, namespace_problems
from icemirror.settings.table_options import TableOptions
from icemirror.tables.table_id import TableId

_ONE_NAMESPACE_KEYS = ("namespace", "changelog_table", "mirror_table")
_DOTTED_KEYS = ("changelog", "mirror")
_NAMING_ADVICE = "set either namespace, changelog_table and mirror_table, or changelog and mirror"


class TableNames(Section):
    """The names of a changelog and its mirror, in one namespace or in two."""

    namespace: Name | None = Field(
        default=None, description="Namespace of both tables; nested levels are separated by dots."
    )
    changelog_table: Name | None = Field(default=None, description="The changelog's name in `namespace`.")
    mirror_table: Name | None = Field(default=None, description="The mirror's name in `namespace`.")
    changelog: Name | None = Field(
        default=None,
        description="The changelog's dotted name; use it with `mirror` if the namespaces differ.",
    )
    mirror: Name | None = Field(default=None, description="The mirror's dotted name.")

    @property
    def changelog_id(self) -> TableId:
        """The changelog's identity in its catalog."""
        return self._identity(self.changelog, self.changelog_table)

    @property
    def mirror_id(self) -> TableId:
        """The mirror's identity in its catalog."""
        return self._identity(self.mirror, self.mirror_table)

    @property
    def name(self) -> str:
        """The mirror's dotted name: the name of this table in commands, JSON and metrics."""
        return str(self.mirror_id)

    def _identity(self, dotted: str | None, table: str | None) -> TableId:
        return TableId.parse(dotted if dotted is not None else f"{self.namespace}.{table}")

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless there is one complete form of naming."""
        forms = (_ONE_NAMESPACE_KEYS, _DOTTED_KEYS)
        used_forms = [form for form in forms if any(getattr(self, key) is not None for key in form)]
        if len(used_forms) != 1:
            yield SettingProblem(
                (), _NAMING_ADVICE if used_forms else f"has no table names: {_NAMING_ADVICE}"
            )
            return
        for key in used_forms[0]:
            value: str | None = getattr(self, key)
            if value is None:
                yield SettingProblem((key,), f"missing: {_NAMING_ADVICE}")
            elif key == "namespace":
                yield from namespace_problems((key,), value)
            elif key in _DOTTED_KEYS:
                yield from _dotted_problems((key,), value)
            elif "." in value:
                yield SettingProblem(
                    (key,), "must not contain dots: use `changelog` and `mirror` for dotted names"
                )


def _dotted_problems(path: tuple[str, ...], dotted: str) -> Iterator[SettingProblem]:
    try:
        TableId.parse(dotted)
    except ValueError as error:
        yield SettingProblem(path, str(error))


class TableSettings(TableOptions, TableNames):
    """One changelog and its mirror."""

    @property
    def rejects_id(self) -> TableId:
        """The identity of the rejects table, in the mirror's catalog."""
        if self.rejects_table is None:
            return TableId(self.mirror_id.namespace, f"{self.mirror_id.name}_rejects")
        if "." in self.rejects_table:
            return TableId.parse(self.rejects_table)
        return TableId(self.mirror_id.namespace, self.rejects_table)

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless these are two tables with one form of naming and consistent options."""
        naming_problems = list(TableNames.problems(self))
        if not naming_problems and (self.changelog_id, self.changelog_catalog) == (
            self.mirror_id,
            self.mirror_catalog,
        ):
            key = "mirror" if self.mirror is not None else "mirror_table"
            yield SettingProblem(
                (key,), f"mirror and changelog are the same table, {self.name}: choose another {key}"
            )
        if self.rejects_table is not None and "." in self.rejects_table:
            yield from _dotted_problems(("rejects_table",), self.rejects_table)
        yield from super().problems()
