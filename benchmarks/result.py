"""The figures of a run, as stored in JSON: a cell is one part of the benchmark on one system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.messages import Inspection, Timed


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Frozen):
    """The machine on which a cell was measured."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    versions: dict[str, str]


class Conditions(_Frozen):
    """The conditions of a cell. `busy_cores`, if known, and `load` (the load average) are from just before it."""

    spark_cores: int
    driver_memory: str
    load: float
    busy_cores: float | None = None
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
    """The completed workloads."""

    kind: Literal["merges"] = "merges"
    workloads: tuple[WorkloadRun, ...]


class Lookup(_Frozen):
    """Lookups of keys in one index segment; `first_seconds` includes reading its directory."""

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
    """Full scans of a mirror after many merges, and of a rewritten copy."""

    name: str
    merged: tuple[float, ...]
    compacted: tuple[float, ...]


class Reading(_Frozen):
    """The cost of many small merges for readers; `left_out` has the reason for each reader that could not run."""

    kind: Literal["reading"] = "reading"
    title: str
    merges: int
    readers: tuple[Reader, ...]
    left_out: dict[str, str] = {}


class Storage(_Frozen):
    """A mirror compared with plain Parquet of the same rows, after the initial copy and after updates."""

    name: str
    rows: int
    updates: int
    plain_bytes: int
    copied: Inspection
    updated: Inspection


class Storages(_Frozen):
    """The disk space of mirrors."""

    kind: Literal["storages"] = "storages"
    tables: tuple[Storage, ...]


class Memory(_Frozen):
    """The peak of the total over all processes of an initial load; a shared page counts once."""

    kind: Literal["memory"] = "memory"
    rows: int
    seconds: float
    peak_bytes: int
    peak_by_process: dict[str, int]


class Reached(_Frozen):
    """One commit on a changelog: seconds until it was noticed, until a job claimed the table, until it was visible."""

    noticed: float
    taken: float
    visible: float


class LatencyRun(_Frozen):
    """Successive commits, with a job that lingers in between."""

    name: str
    title: str
    commits: tuple[Reached, ...]


class Latency(_Frozen):
    """Time from a commit on the changelog to the row in the mirror."""

    kind: Literal["latency"] = "latency"
    rows: int
    events: int
    runs: tuple[LatencyRun, ...]


class Fleet(_Frozen):
    """Many tables on one machine, one of them busy.

    `busy`, `quiet` and `burst` are seconds from a commit until it was visible. `starved`: quiet tables with a commit
    that was not visible while the busy table kept committing. `sparks`: the number of Spark sessions, if known.
    """

    kind: Literal["fleet"] = "fleet"
    tables: int
    seconds: float
    events: int
    busy_every_seconds: float
    quiet_every_seconds: float
    busy: tuple[float, ...]
    quiet: tuple[float, ...]
    burst: tuple[float, ...]
    starved: int
    bursts: int
    launches: int
    allowed_jobs: int
    most_jobs: int
    most_sparks: int | None = None
    sparks: int | None = None


class Absent(_Frozen):
    """The cell could not be measured."""

    kind: Literal["absent"] = "absent"
    reason: str
    wrong: bool = False


Outcome = Annotated[
    Merges | Lookups | Reading | Storages | Memory | Latency | Fleet | Absent, Field(discriminator="kind")
]


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
    """All cells of a run."""

    version: Literal[2] = 2
    cells: tuple[Cell, ...] = ()

    def over(self, other: Run, order: Sequence[tuple[str, str]]) -> Run:
        """Return these cells, and the cells that only the other run has, in a given order."""
        found = {(cell.part, cell.system): cell for cell in (*other.cells, *self.cells)}
        return Run(cells=tuple(found[key] for key in order if key in found))

    def outcome(self, part: str, system: str) -> Outcome | None:
        """Return the outcome of a part on a system."""
        return next((cell.outcome for cell in self.cells if (cell.part, cell.system) == (part, system)), None)

    def workloads(self, part: str) -> dict[str, dict[str, WorkloadRun]]:
        """Return the workloads of a merging part: workload → system → run."""
        found: dict[str, dict[str, WorkloadRun]] = {}
        for cell in self.cells:
            if cell.part == part and isinstance(cell.outcome, Merges):
                for run in cell.outcome.workloads:
                    found.setdefault(run.name, {})[cell.system] = run
        return found
