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
from icemirror.protocol.worker import Limits
from icemirror.settings import Settings
from icemirror.stores.from_settings import open_store, policy_of
from icemirror.telemetry.from_settings import open_report, start_logs
from icemirror.telemetry.logs import get_log
from spark_job.worker.run_arguments import RunArguments, read_arguments

_TURN_SLICES = 2  # then the next waiting table has its turn

log = get_log(__name__)


def main() -> int:
    """Run until there is no work, or until SIGTERM."""
    began = time.monotonic()
    try:
        launched = read_arguments(sys.argv[1:], os.environ)
        _run(launched, launched.settings(os.environ), began + launched.stop_after_seconds)
    except IcemirrorError as error:
        log.failure("worker failed", error)
        return exit_code(error)
    return Exit.DONE


def _run(launched: RunArguments, settings: Settings, ends_at: float) -> None:
    from spark_job.worker.tables import WorkerTables  # heavy: only with valid settings
    from spark_job.worker.worker import WorkerDependencies, run_worker

    start_logs(settings)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    me = launched.holder
    tables = WorkerTables(settings, me.run_id)
    with open_store(settings) as store:
        run_worker(
            me,
            WorkerDependencies(
                store=store,
                policy=policy_of(settings),
                limits=Limits(linger_seconds=settings.job.linger, turn_slices=_TURN_SLICES),
                advance=tables.advance,
                replay=tables.replay,
                tables=tables.names,
                discovery_error=tables.discovery_error,
                stopping=lambda: stop.is_set() or time.monotonic() > ends_at,
                report=open_report(settings),
                timer=tables.timer,
            ),
        )
