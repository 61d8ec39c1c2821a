"""What a launcher can do, whatever it starts workers on."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from icemirror.run_request import RunRequest


class RunState(StrEnum):
    """How a run is, as far as its platform can tell."""

    QUEUED = "queued"
    RUNNING = "running"
    GONE = "gone"


class Launcher(Protocol):
    """Starts workers. A token is launched once, however often it is asked for."""

    def launch(self, request: RunRequest) -> str:
        """Starts a worker for the request's token, or finds the one that was started; its run id."""

    def poll(self, run_id: str) -> RunState:
        """How a run is. One that was never heard of is gone."""

    def cancel(self, run_id: str) -> None:
        """Ends a run that hangs; nothing happens if it is gone."""
