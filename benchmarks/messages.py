"""What the benchmark and the process of a system say to each other: one JSON object a line, one answer a request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from benchmarks.fingerprint import Fingerprint


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Start(_Frozen):
    """Begin with an empty workspace, on so many cores, with Spark's driver given so much memory."""

    do: Literal["start"] = "start"
    workspace: Path
    cores: int
    driver_memory: str


class Load(_Frozen):
    """Take in the base table, Parquet files; partitioned by a column if one is named.

    `format_version`: of icemirror's mirror, if not the usual one.
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
    """Tell what the table has become."""

    do: Literal["inspect"] = "inspect"
    table: str


class Scan(_Frozen):
    """Read an Iceberg table that somebody else wrote, by its metadata file."""

    do: Literal["scan"] = "scan"
    metadata: str


Request = Annotated[Start | Load | Apply | Inspect | Scan, Field(discriminator="do")]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request)


class Ready(_Frozen):
    """The system has started; the versions that it runs."""

    answer: Literal["ready"] = "ready"
    versions: dict[str, str]


class Timed(_Frozen):
    """How long it took, and the parts of it where the system tells them."""

    answer: Literal["timed"] = "timed"
    seconds: float
    steps: dict[str, float] = {}


class Inspection(_Frozen):
    """A table as it stands: its rows, its bytes, and the seconds of full scans, DuckDB's or else the system's own."""

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
        """Without the place of the table, which is gone when its part is done."""
        return self.model_copy(update={"metadata": None})


class Scanned(_Frozen):
    """The seconds of full scans."""

    answer: Literal["scanned"] = "scanned"
    rows: int
    seconds: tuple[float, ...]


class Failed(_Frozen):
    """It did not work."""

    answer: Literal["failed"] = "failed"
    message: str


Answer = Annotated[Ready | Timed | Inspection | Scanned | Failed, Field(discriminator="answer")]
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
