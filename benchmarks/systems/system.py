"""What every measured system can do."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from benchmarks.messages import Inspection, Load, Scanned, Timed


class System(Protocol):
    """A way of keeping tables current. It lives in a process of its own, with a workspace of its own."""

    @property
    def versions(self) -> dict[str, str]:
        """What it runs, by name."""

    def load(self, request: Load) -> Timed:
        """Takes in a base table; only what a user would wait for is timed."""

    def apply(self, table: str, batch: Path) -> Timed:
        """Applies one batch of changes; only what a user would wait for is timed."""

    def inspect(self, table: str) -> Inspection:
        """What the table has become."""

    def close(self) -> None:
        """Stops what was started."""


@runtime_checkable
class TableReader(Protocol):
    """A system that can also read Iceberg tables of others."""

    def scan(self, metadata: str) -> Scanned:
        """Full scans of the table that a metadata file describes."""
