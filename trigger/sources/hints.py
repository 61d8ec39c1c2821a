"""What an event can tell, whatever its source: that something happened at a place, to a table, or to a run."""

from __future__ import annotations

from dataclasses import dataclass

from trigger.sources.place import Place


@dataclass(frozen=True, slots=True)
class LocationHint:
    """A metadata file was written here: look at the table whose metadata are kept in that folder."""

    place: Place


@dataclass(frozen=True, slots=True)
class NameHint:
    """The table of this name changed.

    `qualified`: the sender may have put its own name for the catalog before it. `or_mirror`: it may be the mirror's
    name, as people call the table. In other events a mirror's name tells of our own commits.
    """

    levels: tuple[str, ...]
    qualified: bool = False
    or_mirror: bool = False


@dataclass(frozen=True, slots=True)
class RunHint:
    """A run may have changed its state. Which state is asked of the launcher, not taken from the event."""

    run_id: str


Hint = LocationHint | NameHint | RunHint
