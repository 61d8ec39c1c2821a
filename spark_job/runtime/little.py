"""Work that is done in this process before Spark would have started."""

from __future__ import annotations

from spark_job.runtime.engine import Engine, InProcess
from spark_job.runtime.work import Result, Work

_LITTLE_ROWS = 2_000_000
_LITTLE_BYTES = 256 << 20


def run_here_or(engine: Engine, work: Work[Result]) -> list[Result]:
    """Runs the work here if it is little, else on the engine."""
    rows = sum(file.events for file in work.files)
    size = sum(file.bytes for file in work.files)
    here: Engine = InProcess() if rows <= _LITTLE_ROWS and size <= _LITTLE_BYTES else engine
    return here.run(work)
