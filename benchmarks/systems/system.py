"""The protocol of every measured system."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from benchmarks.messages import Inspection, Load, Scanned, Timed


class System(Protocol):
    """A system that keeps tables current, in a separate process with a separate workspace."""

    @property
    def versions(self) -> dict[str, str]:
        """Return the names and versions of its components."""

    def load(self, request: Load) -> Timed:
        """Load a base table; only the time that a user waits is measured."""

    def apply(self, table: str, batch: Path) -> Timed:
        """Apply one batch of changes; only the time that a user waits is measured."""

    def inspect(self, table: str) -> Inspection:
        """Return the state of the table."""

    def close(self) -> None:
        """Stop the system."""


@runtime_checkable
class TableReader(Protocol):
    """A system that can also read Iceberg tables of other systems."""

    def scan(self, metadata: str) -> Scanned:
        """Scan the table of a metadata file."""
