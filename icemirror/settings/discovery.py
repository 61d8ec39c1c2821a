"""Changelogs found by a pattern: every match becomes a table with the entry's options."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from icemirror.settings.contradictions import Contradiction, namespace_problems
from icemirror.settings.section import Name, Section
from icemirror.settings.table_options import TableOptions
from icemirror.settings.tables import TableSettings


class ChangelogPattern(Section):
    """A pattern over the names of the tables in a namespace."""

    namespace: Name = Field(description="Namespace of the changelogs; nested levels with dots.")
    match: Name = Field(description="Pattern with one `*`; the mirror is named by the text that it matched.")
    mirror_namespace: Name | None = Field(
        default=None, description="Namespace of the mirrors. Default: `namespace`."
    )

    def mirror_name(self, changelog: str) -> str | None:
        """The text that `*` matched in a changelog's name; None if the name does not match."""
        before, after = self.match.split("*")
        if len(changelog) <= len(before) + len(after):
            return None
        if not changelog.startswith(before) or not changelog.endswith(after):
            return None
        return changelog[len(before) : len(changelog) - len(after)]

    def contradictions(self) -> Iterator[Contradiction]:
        """One `*`, and names that can be namespaces."""
        if self.match.count("*") != 1:
            yield Contradiction(("match",), f"{self.match!r} must contain exactly one *, as in *_changelog")
        yield from namespace_problems(("namespace",), self.namespace)
        if self.mirror_namespace is not None:
            yield from namespace_problems(("mirror_namespace",), self.mirror_namespace)


class DiscoverSettings(TableOptions, ChangelogPattern):
    """Every matching changelog becomes a table with these options."""

    def table(self, changelog: str, mirror: str) -> TableSettings:
        """The settings of a changelog that matched."""
        given = {
            name: getattr(self, name) for name in TableOptions.model_fields if name in self.model_fields_set
        }
        return TableSettings(
            changelog=f"{self.namespace}.{changelog}",
            mirror=f"{self.mirror_namespace or self.namespace}.{mirror}",
            **given,
        )

    def contradictions(self) -> Iterator[Contradiction]:
        """Mirrors that are not the changelogs themselves."""
        if self.rejects_table is not None:
            yield Contradiction(
                ("rejects_table",),
                "the tables found here would share it: leave it out, and each has its own (the mirror's name with "
                "`_rejects`)",
            )
        same_namespace = self.mirror_namespace in (None, self.namespace)
        if self.match == "*" and same_namespace and self.changelog_catalog == self.mirror_catalog:
            yield Contradiction(
                ("match",), "the mirrors would be the changelogs themselves: give mirror_namespace"
            )
        yield from super().contradictions()
