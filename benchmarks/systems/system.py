"""What every measured system can do."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from benchmarks.messages import Inspection, Load, Scanned, Timed


class System(Protocol):
    """A way of keeping tables current, in a separate process with a separate workspace."""

    @property
    def versions(self) -> dict[str, str]:
        """Return the names and versions of what it runs."""

    def load(self, request: Load) -> Timed:
        """Load a base table; only what a user would wait for is timed."""

    def apply(self, table: str, batch: Path) -> Timed:
        """Apply one batch of changes; only what a user would wait for is timed."""

    def inspect(self, table: str) -> Inspection:
        """Return the state of the table."""

    def close(self) -> None:
        """Stop the system."""


@runtime_checkable
class TableReader(Protocol):
    """A system that can also read Iceberg tables of other systems."""

    def scan(self, metadata: str) -> Scanned:
        """Full scans of the table that a metadata file describes."""
