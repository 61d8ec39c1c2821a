"""A catalog in memory whose commits may be lost before or after their effect, or be delayed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, _apply_table_update, _TableMetadataUpdateContext

from spark_job.iceberg.catalogs import Catalogs
from tests.sim.engine.memory_io import MemoryIO

_EARLIER = 3  # versions of metadata that a stale read may return


class Fault(StrEnum):
    """What happens to one commit on the mirror, or to the read of the changelog before it."""

    LOST_BEFORE = "lost before"  # no effect, and an ambiguous error
    LOST_AFTER = "lost after"  # committed, but the response is lost
    BLIND_AFTER = "blind after"  # committed, the response is lost, and so is the check
    DELAYED = "delayed"  # committed some steps later
    REFUSED_AFTER = "refused after"  # committed, and the retry of the transport is refused
    STALE = "planned from a stale changelog"  # a cache or a replica returns fewer commits


class MemoryCatalog(NoopCatalog):
    """Tables in a dictionary; metadata stays an object. `fault` applies to the next commit of a merge."""

    def __init__(self, io: MemoryIO, observe: Callable[[TableMetadata, TableMetadata], None]) -> None:
        super().__init__("memory")
        self.io = io
        self.tables: dict[tuple[str, ...], tuple[TableMetadata, str]] = {}
        self.earlier: dict[tuple[str, ...], deque[TableMetadata]] = {}
        self.fault: Fault | None = None
        self.delayed: list[Callable[[], None]] = []
        self.applying_delayed = False
        self._observe = observe
        self._blind = False
        self._versions = count()

    def create_namespace_if_not_exists(self, namespace: Any, properties: Any = None) -> None:
        """All namespaces exist."""

    def drop_table(self, identifier: Any) -> None:
        """Drop a table; its files stay, and a stale read may still return it."""
        self.tables.pop(self.identifier_to_tuple(identifier))

    def create_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> Table:
        name = self.identifier_to_tuple(identifier)
        if name in self.tables:
            raise TableAlreadyExistsError(str(name))
        location = f"file:///lake/{'/'.join(name)}"
        metadata = new_table_metadata(schema, partition_spec, sort_order, location, properties or {})
        if metadata.format_version >= 3:
            metadata = metadata.model_copy(update={"next_row_id": 0})
        self.put(name, metadata)
        return self.load_table(name)

    def load_table(self, identifier: Any) -> Table:
        if self._blind:
            self._blind = False
            raise ConnectionError("the catalog does not answer")
        name = self.identifier_to_tuple(identifier)
        if name not in self.tables:
            raise NoSuchTableError(str(name))
        metadata, version = self.tables[name]
        if self.fault is Fault.STALE and name[-1].endswith("_changelog"):
            metadata = self.earlier[name][0]
        return Table(name, metadata, version, self.io, self)

    def put(self, name: tuple[str, ...], metadata: TableMetadata) -> None:
        """Set the metadata of a table."""
        self.earlier.setdefault(name, deque(maxlen=_EARLIER)).append(self.tables.get(name, (metadata,))[0])
        self.tables[name] = (metadata, f"file:///meta/{next(self._versions)}")

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        if self.io.dead:
            raise ConnectionError("the process is dead")
        name = table.name()
        fault = self._take_fault(updates)
        match fault:
            case Fault.LOST_BEFORE:
                raise CommitStateUnknownException("no answer")
            case Fault.DELAYED:
                self.delayed.append(lambda: self._apply(name, requirements, updates))
                raise CommitStateUnknownException("no answer yet")
        self._apply(name, requirements, updates)
        match fault:
            case Fault.REFUSED_AFTER:
                raise CommitFailedException("branch main has changed")
            case Fault.LOST_AFTER | Fault.BLIND_AFTER:
                self._blind = fault is Fault.BLIND_AFTER
                raise CommitStateUnknownException("no answer")
        metadata, version = self.tables[name]
        return CommitTableResponse(metadata=metadata, **{"metadata-location": version})

    def apply_delayed(self) -> int:
        """Apply delayed commits that the catalog still accepts; return how many."""
        applied = 0
        waiting, self.delayed = self.delayed, []
        self.applying_delayed = True
        for commit in waiting:
            try:
                commit()
                applied += 1
            except CommitFailedException:
                continue
        self.applying_delayed = False
        return applied

    def _take_fault(self, updates: Any) -> Fault | None:
        ours = any(
            isinstance(update, AddSnapshotUpdate)
            and update.snapshot.summary is not None
            and "icemirror.cursor" in update.snapshot.summary.additional_properties
            for update in updates
        )
        fault, self.fault = (self.fault, None) if ours else (None, self.fault)
        return fault

    def _apply(self, name: tuple[str, ...], requirements: Any, updates: Any) -> None:
        metadata, _ = self.tables[name]
        for requirement in requirements:
            requirement.validate(metadata)
        try:
            self.put(name, _updated(metadata, updates))
        except ValueError as error:  # another writer used the sequence number
            raise CommitFailedException(str(error)) from error
        self._observe(metadata, self.tables[name][0])


def _updated(metadata: TableMetadata, updates: Any) -> TableMetadata:
    """Like `update_table_metadata`, without its deep copies."""
    changes = _TableMetadataUpdateContext()
    for update in updates:
        metadata = _apply_table_update(update, metadata, changes)
    return metadata


class OneCatalog(Catalogs):
    """Catalogs that always return the one in memory."""

    def get_existing(self, name: str | None) -> Catalog:
        return self.get(name)
