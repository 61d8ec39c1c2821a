"""`python -m spark_job --request JSON`: a worker, launched by the trigger.

Where the platform cannot give it a file, `--config` has the configuration itself; `--run-id` is the run's name there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from icemirror.errors import Exit, IcemirrorError, exit_code
from icemirror.settings import Settings
from icemirror.state.configured import open_store, policy_of
from icemirror.state.worker import Limits
from icemirror.telemetry.configured import open_report, start_logs
from icemirror.telemetry.logs import get_log
from spark_job.worker.launched import Launched, read_arguments

_TURN_SLICES = 2  # then another table that waits has its turn

log = get_log(__name__)


def main() -> int:
    """Runs until there is no work, or until it is asked to stop."""
    began = time.monotonic()
    try:
        launched = read_arguments(sys.argv[1:], os.environ)
        _run(launched, launched.settings(os.environ), began + launched.stop_after_seconds)
    except IcemirrorError as error:
        log.failure("worker failed", error)
        return exit_code(error)
    return Exit.DONE


def _run(launched: Launched, settings: Settings, retires_at: float) -> None:
    from spark_job.worker.tables import Tables  # heavy: after the settings proved good
    from spark_job.worker.worker import Surroundings, run_worker

    start_logs(settings)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    me = launched.holder
    tables = Tables(settings, me.run_id)
    with open_store(settings) as store:
        run_worker(
            me,
            Surroundings(
                store=store,
                policy=policy_of(settings),
                limits=Limits(linger_seconds=settings.job.linger, turn_slices=_TURN_SLICES),
                advance=tables.advance,
                replay=tables.replay,
                tables=tables.names,
                blind=tables.blind,
                stopping=lambda: stop.is_set() or time.monotonic() > retires_at,
                report=open_report(settings),
                timer=tables.timer,
            ),
        )


if __name__ == "__main__":
    sys.exit(main())
