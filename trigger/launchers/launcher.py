"""What a launcher can do, whatever it starts workers on."""

from __future__ import annotations

from typing import Protocol

from icemirror.run_request import RunRequest
from icemirror.state.events import RunState


class Launcher(Protocol):
    """Starts workers. A token is launched once, however often it is asked for."""

    def launch(self, request: RunRequest) -> str:
        """Starts a worker for the request's token, or finds the one that was started; its run id."""

    def find(self, token: str) -> str | None:
        """The run that was started for a token, if one was."""

    def poll(self, run_id: str) -> RunState:
        """How a run is. One that was never heard of is gone."""

    def log_of(self, run_id: str) -> str:
        """Where a person finds what a run wrote; empty where that is not known."""

    def cancel(self, run_id: str) -> None:
        """Ends a run that hangs; nothing happens if it is gone."""
