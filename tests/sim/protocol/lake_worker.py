"""A worker on a lake of files, as the launcher starts it; it notes when it begins and ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from icemirror.local_process import identify
from icemirror.result import Advance
from icemirror.run_request import RunRequest
from icemirror.state.events import Holder
from icemirror.state.policy import Policy
from icemirror.state.replay import Replay, ReplayStep
from icemirror.state.rows import SlotId
from icemirror.state.sqlite import SqliteStore
from icemirror.state.worker import Limits
from spark_job.worker.worker import Surroundings, run_worker


def _no_replay(table: str, replay: Replay) -> ReplayStep:
    raise AssertionError(f"{table}: nobody asks for replays here")


def work(
    request: RunRequest,
    *,
    policy: Policy,
    limits: Limits,
    names: Iterable[str],
    advance: Callable[[str], Advance],
    replay: Callable[[str, Replay], ReplayStep] = _no_replay,
) -> None:
    """Runs until there is nothing left to do; the lake is the folder of the configuration."""
    folder, pid, tables = Path(request.config).parent, os.getpid(), frozenset(names)
    _note(folder, f"began {pid}")
    with SqliteStore(folder / "state.db") as store:
        run_worker(
            Holder(SlotId(request.group, request.slot), request.gen, identify(pid) or "unknown"),
            Surroundings(
                store=store,
                policy=policy,
                limits=limits,
                advance=advance,
                replay=replay,
                tables=lambda: tables,
                stopping=lambda: False,
            ),
        )
    _note(folder, f"ended {pid}")


def _note(folder: Path, line: str) -> None:
    """One line more, whole even if somebody is killed."""
    with (folder / "workers").open("a") as workers:
        workers.write(f"{line}\n")
