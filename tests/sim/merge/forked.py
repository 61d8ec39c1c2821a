"""What the job does with a mirror, in a process of its own, which a named crash point may kill.

Wired as the job wires it, but without Spark: the points are in the driver and in the tasks alike. The processes are
forks of one that has imported the engine, so that none pays for a start of Python.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyiceberg.table import Table

from icemirror import crash
from icemirror.settings import TableSettings, load_settings
from icemirror.state.replay import Replay, ReplayProgress
from spark_job.adopt.adopt import adopt_table
from spark_job.iceberg.tables import Catalogs
from spark_job.maintenance import expire as expiring
from spark_job.maintenance import orphans
from spark_job.merge import merge_table
from spark_job.pipeline import Pipeline
from spark_job.replays.replay import replay_step
from spark_job.runtime.engine import InProcess, LazyEngine

_TIMEOUT_SECONDS = 120

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__])

Work = Callable[[Pipeline, TableSettings], bool]


def merge(pipeline: Pipeline, table: TableSettings) -> bool:
    """Up to the changelog's head."""
    return merge_table(pipeline, table).outcome != "failed"


def rebuild(pipeline: Pipeline, table: TableSettings) -> bool:
    """A full rebuild; how far it is stands in a file, as it does in the table's row."""
    noted = pipeline.settings.source_path.with_name("mark")
    while True:
        progress = ReplayProgress(mark=noted.read_text()) if noted.exists() else None
        step = replay_step(pipeline, table, Replay("full", 0.0, full=True, progress=progress))
        if step.done:
            noted.unlink(missing_ok=True)
            return True
        noted.write_text(step.progress.mark or "")


def _mirror(pipeline: Pipeline, table: TableSettings) -> Table:
    mirror = pipeline.catalogs.load_mirror(table)
    assert mirror is not None
    return mirror


def expire(pipeline: Pipeline, table: TableSettings) -> bool:
    """Old snapshots of the mirror."""
    expiring.expire(_mirror(pipeline, table), table.name)
    return True


def clean_orphans(pipeline: Pipeline, table: TableSettings) -> bool:
    """Whatever nothing refers to, however young."""
    orphans.clean_orphans(lambda: _mirror(pipeline, table), table.name, older_than_seconds=-60)
    return True


def adopt(pipeline: Pipeline, table: TableSettings) -> bool:
    """The table becomes a mirror as of the changelog's head."""
    adopt_table(pipeline, table, "head", dry_run=False)
    return True


def run_forked(work: Work, config: Path, shards: int, crash_at: str | None = None) -> int:
    """The exit code: 0 if the work was done, 1 if it failed, negative if it was killed."""
    process = _forks.Process(target=_run, args=(work, config, shards, crash_at))
    process.start()
    process.join(_TIMEOUT_SECONDS)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{work.__name__} has not ended after {_TIMEOUT_SECONDS} s")
    return process.exitcode


def _run(work: Work, config: Path, shards: int, crash_at: str | None) -> None:
    if crash_at is not None:
        os.environ[crash.VARIABLE] = crash_at
        importlib.reload(crash)
    settings = load_settings(config, os.environ)
    engine = LazyEngine(lambda: InProcess(shards))
    pipeline = Pipeline(settings, Catalogs(settings), engine, "killed", key_check_rows=None)
    sys.exit(not work(pipeline, settings.tables[0]))
