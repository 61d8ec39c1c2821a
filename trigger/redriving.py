"""How a dead letter is taken again: as its source would take the event now."""

from __future__ import annotations

from icemirror.errors import BadConfig
from icemirror.state.letters import Redrive
from trigger.fleet import Fleet


def open_redrive(fleet: Fleet) -> Redrive:
    """Takes letters for the tables of this fleet."""
    raise BadConfig(
        "trigger.sources: this version takes no events, so there is nothing that could take a letter again; "
        "`icemirror sweep` finds what they told of"
    )
