"""What was measured, as JSON keeps it: a cell is one part of the benchmark on one system."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.messages import Inspection, Timed


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Frozen):
    """Where a cell was measured."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    versions: dict[str, str]


class Conditions(_Frozen):
    """How a cell was measured. `busy_cores` is what others used just before, if known; `load` the load average then."""

    spark_cores: int
    driver_memory: str
    load: float
    busy_cores: float | None
    crowded: bool


class WorkloadRun(_Frozen):
    """One workload on one system; the first batch is the warm-up."""

    name: str
    title: str
    rows: int
    events: tuple[int, ...]
    plain_bytes: int
    load: Timed
    batches: tuple[Timed, ...]
    inspection: Inspection


class Merges(_Frozen):
    """Workloads that were run through."""

    kind: Literal["merges"] = "merges"
    workloads: tuple[WorkloadRun, ...]


class Lookup(_Frozen):
    """Looking up keys in one segment of the index; `first_seconds` reads its directory as well."""

    codec: str
    entries: int
    keys: int
    bytes: int
    first_seconds: float
    seconds: tuple[float, ...]


class Lookups(_Frozen):
    """Lookups in indexes of several sizes."""

    kind: Literal["lookups"] = "lookups"
    lookups: tuple[Lookup, ...]


class Reader(_Frozen):
    """Full scans of a mirror after many merges, and of a copy of it that was written anew."""

    name: str
    merged: tuple[float, ...]
    compacted: tuple[float, ...]


class Reading(_Frozen):
    """What many small merges cost readers; a reader that could not run is named with the reason."""

    kind: Literal["reading"] = "reading"
    title: str
    merges: int
    readers: tuple[Reader, ...]
    left_out: dict[str, str] = {}


class Storage(_Frozen):
    """A mirror beside plain Parquet of the same rows, after the initial copy and after updates."""

    name: str
    rows: int
    updates: int
    plain_bytes: int
    copied: Inspection
    updated: Inspection


class Storages(_Frozen):
    """What mirrors take on disk."""

    kind: Literal["storages"] = "storages"
    tables: tuple[Storage, ...]


class Memory(_Frozen):
    """The greatest sum over all processes of an initial load, each shared page counted once."""

    kind: Literal["memory"] = "memory"
    rows: int
    seconds: float
    peak_bytes: int
    peak_by_process: dict[str, int]


class Absent(_Frozen):
    """It could not be measured."""

    kind: Literal["absent"] = "absent"
    reason: str
    wrong: bool = False


Outcome = Annotated[Merges | Lookups | Reading | Storages | Memory | Absent, Field(discriminator="kind")]


class Cell(_Frozen):
    """One part on one system."""

    part: str
    system: str
    began_at: str
    seconds: float
    machine: Machine
    conditions: Conditions
    outcome: Outcome


class Run(_Frozen):
    """Everything that was measured, part by part."""

    version: Literal[2] = 2
    cells: tuple[Cell, ...] = ()

    def outcome(self, part: str, system: str) -> Outcome | None:
        """What a part came to on a system."""
        return next((cell.outcome for cell in self.cells if (cell.part, cell.system) == (part, system)), None)

    def workloads(self, part: str) -> dict[str, dict[str, WorkloadRun]]:
        """Workload → system → run, for a part that merges."""
        found: dict[str, dict[str, WorkloadRun]] = {}
        for cell in self.cells:
            if cell.part == part and isinstance(cell.outcome, Merges):
                for run in cell.outcome.workloads:
                    found.setdefault(run.name, {})[cell.system] = run
        return found
