"""The interface of launchers."""

from __future__ import annotations

from typing import Protocol

from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest


class Launcher(Protocol):
    """Starts workers. A token is launched at most once, even if the launch is repeated."""

    def launch(self, request: RunRequest) -> str:
        """Start a worker for the request's token, or find the one that was started; return its run id."""

    def find(self, token: str) -> str | None:
        """Return the run that was started for a token, if there is one."""

    def poll(self, run_id: str) -> RunState:
        """Return the state of a run. An unknown run has ended."""

    def log_location(self, run_id: str) -> str:
        """Return where to find the output of a run; empty if unknown."""

    def cancel(self, run_id: str) -> None:
        """Cancel a run that hangs; do nothing if it has ended."""
