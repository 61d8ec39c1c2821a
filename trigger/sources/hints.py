"""Hints: what an event reports, independent of its source."""

from __future__ import annotations

from dataclasses import dataclass

from trigger.sources.object_location import ObjectLocation


@dataclass(frozen=True, slots=True)
class LocationHint:
    """A metadata file was written here; the table that keeps its metadata in that folder may have moved."""

    location: ObjectLocation


@dataclass(frozen=True, slots=True)
class NameHint:
    """The table of this name changed.

    `may_have_catalog_prefix`: the name may start with the sender's name of the catalog.
    `may_be_mirror_name`: users also send mirror names. In other events, a mirror's name means a commit by icemirror.
    """

    levels: tuple[str, ...]
    may_have_catalog_prefix: bool = False
    may_be_mirror_name: bool = False


@dataclass(frozen=True, slots=True)
class RunHint:
    """A run may have changed its state. The state is read from the launcher; the event is not trusted."""

    run_id: str


Hint = LocationHint | NameHint | RunHint
