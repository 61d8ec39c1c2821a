"""Discovery of changelogs: every match of a pattern becomes a table."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from icemirror.settings.contradictions import Contradiction, namespace_problems
from icemirror.settings.section import Name, Section
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
        before, after = self.match.split("*")
        if len(changelog) <= len(before) + len(after):
            return None
        if not changelog.startswith(before) or not changelog.endswith(after):
            return None
        return changelog[len(before) : len(changelog) - len(after)]

    def contradictions(self) -> Iterator[Contradiction]:
        """One `*`, and valid namespaces."""
        if self.match.count("*") != 1:
            yield Contradiction(("match",), f"{self.match!r} must contain exactly one *, as in *_changelog")
        yield from namespace_problems(("namespace",), self.namespace)
        if self.mirror_namespace is not None:
            yield from namespace_problems(("mirror_namespace",), self.mirror_namespace)


class DiscoverSettings(TableOptions, ChangelogPattern):
    """Every matching changelog becomes a table with these options."""

    def table(self, changelog: str, mirror: str) -> TableSettings:
        """Return the settings of a matching changelog."""
        given = {
            name: getattr(self, name) for name in TableOptions.model_fields if name in self.model_fields_set
        }
        return TableSettings(
            changelog=f"{self.namespace}.{changelog}",
            mirror=f"{self.mirror_namespace or self.namespace}.{mirror}",
            **given,
        )

    def contradictions(self) -> Iterator[Contradiction]:
        """Mirrors differ from changelogs, and tables do not share a rejects table."""
        if self.rejects_table is not None:
            yield Contradiction(
                ("rejects_table",),
                "all discovered tables would share it: remove it, and each table gets its own (the mirror's name with "
                "`_rejects`)",
            )
        same_namespace = self.mirror_namespace in (None, self.namespace)
        if self.match == "*" and same_namespace and self.changelog_catalog == self.mirror_catalog:
            yield Contradiction(("match",), "each mirror would be its own changelog: set mirror_namespace")
        yield from super().contradictions()
