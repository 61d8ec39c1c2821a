"""Discovery of changelogs: every match of a pattern becomes a table."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from icemirror.settings.section import Name, Section
from icemirror.settings.setting_problems import SettingProblem, namespace_problems
from icemirror.settings.table_options import TableOptions
from icemirror.settings.tables import TableSettings


class ChangelogPattern(Section):
    """A pattern for the names of tables in a namespace."""

    namespace: Name = Field(description="Namespace of the changelogs; nested levels are separated by dots.")
    match: Name = Field(description="Pattern with one `*`; the text it matches is the mirror's name.")
    mirror_namespace: Name | None = Field(
        default=None, description="Namespace of the mirrors. Default: `namespace`."
    )

    def mirror_name(self, changelog: str) -> str | None:
        """Return the text that `*` matches in a changelog's name; None if the name does not match."""
        prefix, suffix = self.match.split("*")
        if len(changelog) <= len(prefix) + len(suffix):
            return None
        if not changelog.startswith(prefix) or not changelog.endswith(suffix):
            return None
        return changelog[len(prefix) : len(changelog) - len(suffix)]

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless there is one `*`, and the namespaces are valid."""
        if self.match.count("*") != 1:
            yield SettingProblem(("match",), f"{self.match!r} must contain exactly one *, as in *_changelog")
        yield from namespace_problems(("namespace",), self.namespace)
        if self.mirror_namespace is not None:
            yield from namespace_problems(("mirror_namespace",), self.mirror_namespace)


class DiscoverSettings(TableOptions, ChangelogPattern):
    """Every matching changelog becomes a table with these options."""

    def table(self, changelog: str, mirror: str) -> TableSettings:
        """Return the settings of a matching changelog."""
        options = {
            name: getattr(self, name) for name in TableOptions.model_fields if name in self.model_fields_set
        }
        return TableSettings(
            changelog=f"{self.namespace}.{changelog}",
            mirror=f"{self.mirror_namespace or self.namespace}.{mirror}",
            **options,
        )

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem if a mirror would be its own changelog, or tables would share a rejects table."""
        if self.rejects_table is not None:
            yield SettingProblem(
                ("rejects_table",),
                "all discovered tables would share it: remove it, and each table gets its own (the mirror's name with "
                "`_rejects`)",
            )
        same_namespace = self.mirror_namespace in (None, self.namespace)
        if self.match == "*" and same_namespace and self.changelog_catalog == self.mirror_catalog:
            yield SettingProblem(("match",), "each mirror would be its own changelog: set mirror_namespace")
        yield from super().problems()
