"""A worker on a lake of files, as the launcher starts it; it logs its start and end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from icemirror.processes.process_identity import identify
from icemirror.protocol.events import WorkerId
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayStep
from icemirror.protocol.rows import SlotId
from icemirror.protocol.run_request import RunRequest
from icemirror.protocol.worker import WorkerLimits
from icemirror.step_results import StepResult
from icemirror.stores.sqlite import SqliteStore
from spark_job.worker.worker import WorkerDependencies, run_worker
from tests.support.fake_tables import FakeTables, no_replay


def work(
    request: RunRequest,
    *,
    policy: Policy,
    limits: WorkerLimits,
    names: Iterable[str],
    advance: Callable[[str], StepResult],
    replay: Callable[[str, Replay], ReplayStep] = no_replay,
) -> None:
    """Run until no work is left; the lake is the folder of the configuration."""
    folder, pid, tables = Path(request.config).parent, os.getpid(), frozenset(names)
    _log(folder, f"began {pid}")
    with SqliteStore(folder / "state.db") as store:
        run_worker(
            WorkerId(SlotId(request.group, request.slot), request.gen, identify(pid) or "unknown"),
            WorkerDependencies(
                store=store,
                policy=policy,
                limits=limits,
                tables=FakeTables(lambda: tables, advance, replay),
                stopping=lambda: False,
            ),
        )
    _log(folder, f"ended {pid}")


def _log(folder: Path, line: str) -> None:
    """Append one line, complete even if the process is killed."""
    with (folder / "workers").open("a") as workers:
        workers.write(f"{line}\n")
