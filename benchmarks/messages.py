"""The protocol between the benchmark and a system's process: one JSON object per line, one response per request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from benchmarks.fingerprint import Fingerprint


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Start(_Frozen):
    """Start with an empty workspace, with a number of cores and an amount of driver memory."""

    do: Literal["start"] = "start"
    workspace: Path
    cores: int
    driver_memory: str


class Load(_Frozen):
    """Load the base table from Parquet files, optionally partitioned by a column.

    `format_version` is that of icemirror's mirror, if not the default.
    """

    do: Literal["load"] = "load"
    table: str
    files: tuple[Path, ...]
    partition: str | None = None
    format_version: int | None = None


class Apply(_Frozen):
    """Apply one batch of changes, a folder of Parquet files in the order of events."""

    do: Literal["apply"] = "apply"
    table: str
    batch: Path


class Inspect(_Frozen):
    """Report the state of the table."""

    do: Literal["inspect"] = "inspect"
    table: str


class Scan(_Frozen):
    """Read an Iceberg table of another system, by its metadata file."""

    do: Literal["scan"] = "scan"
    metadata: str


Request = Annotated[Start | Load | Apply | Inspect | Scan, Field(discriminator="do")]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)


class Ready(_Frozen):
    """The system has started, with these versions."""

    answer: Literal["ready"] = "ready"
    versions: dict[str, str]


class Timed(_Frozen):
    """The duration, by step if the system reports steps."""

    answer: Literal["timed"] = "timed"
    seconds: float
    steps: dict[str, float] = {}


class Inspection(_Frozen):
    """The state of a table: rows, bytes, and the seconds of full scans by DuckDB or the system."""

    answer: Literal["inspection"] = "inspection"
    fingerprint: Fingerprint
    data_bytes: int
    delete_bytes: int
    index_bytes: int
    disk_bytes: int
    scanned_by: Literal["DuckDB", "Spark"]
    scans: tuple[float, ...]
    metadata: str | None = None  # of an Iceberg table

    def figures(self) -> Inspection:
        """Return the state without the table's location, which is deleted after its part."""
        return self.model_copy(update={"metadata": None})


class Scanned(_Frozen):
    """The seconds of full scans."""

    answer: Literal["scanned"] = "scanned"
    rows: int
    seconds: tuple[float, ...]


class Failed(_Frozen):
    """The request failed."""

    answer: Literal["failed"] = "failed"
    message: str


Answer = Annotated[Ready | Timed | Inspection | Scanned | Failed, Field(discriminator="answer")]
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
