"""The worker process that the trigger launches: reads its request, opens the state, serves tables.

Where the platform cannot give it a file, `--config` carries the configuration; `--run-id` is the run's name there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from icemirror.errors import Exit, IcemirrorError, exit_code
from icemirror.protocol.worker import WorkerLimits
from icemirror.settings import Settings
from icemirror.stores.from_settings import build_policy, open_store
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.start_telemetry import open_report, start_logs
from spark_job.worker.run_arguments import RunArguments, read_arguments

log = get_log(__name__)


def main() -> int:
    """Run until there is no work, or until SIGTERM; return the exit code."""
    began = time.monotonic()
    try:
        arguments = read_arguments(sys.argv[1:], os.environ)
        _run(arguments, arguments.settings(os.environ), began + arguments.stop_after_seconds)
    except IcemirrorError as error:
        log.failure("worker failed", error)
        return exit_code(error)
    return Exit.DONE


def _run(arguments: RunArguments, settings: Settings, ends_at: float) -> None:
    from spark_job.worker.tables import WorkerTables  # heavy: only with valid settings
    from spark_job.worker.worker import WorkerDependencies, run_worker

    start_logs(settings)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker_id = arguments.worker_id
    tables = WorkerTables(settings, worker_id.run_id)
    with open_store(settings) as store:
        run_worker(
            worker_id,
            WorkerDependencies(
                store=store,
                policy=build_policy(settings),
                limits=WorkerLimits(linger_seconds=settings.job.linger),
                tables=tables,
                stopping=lambda: stop.is_set() or time.monotonic() > ends_at,
                report=open_report(settings),
            ),
        )
