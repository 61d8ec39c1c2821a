"""What a run measured, as its JSON file keeps it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from benchmarks.messages import Inspection, Timed


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Frozen):
    """Where a run was made. `busy` is the load average when it began: above zero, others were at work."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    versions: dict[str, str]
    busy: float


class SystemRun(_Frozen):
    """One system over one workload; the first batch is the warm-up."""

    load: Timed
    batches: tuple[Timed, ...]
    inspection: Inspection


class WorkloadRun(_Frozen):
    """One workload over all systems."""

    name: str
    title: str
    rows: int
    events: int
    base_bytes: int
    systems: dict[str, SystemRun]


class Run(_Frozen):
    """One run of the benchmarks."""

    version: Literal[1] = 1
    began_at: str
    seconds: float
    spark_cores: int
    driver_memory: str
    machine: Machine
    left_out: dict[str, str]
    workloads: tuple[WorkloadRun, ...]

    def workload(self, name: str) -> WorkloadRun | None:
        """A workload by its name, if it was run."""
        return next((run for run in self.workloads if run.name == name), None)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that took part, ours first."""
        return tuple(dict.fromkeys(name for run in self.workloads for name in run.systems))
