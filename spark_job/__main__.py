"""`python -m spark_job --request JSON`: a worker, launched by the trigger."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from icemirror.errors import Exit, IcemirrorError, exit_code
from icemirror.local_process import identify
from icemirror.run_request import RunRequest
from icemirror.settings import Settings, load_settings
from icemirror.state.configured import open_store, policy_of
from icemirror.state.events import Holder
from icemirror.state.rows import SlotId
from icemirror.state.worker import Limits
from icemirror.telemetry.configured import open_report, start_logs
from icemirror.telemetry.logs import get_log

_TURN_SLICES = 2  # then another table that waits has its turn

log = get_log(__name__)


def main() -> int:
    """Runs until there is no work, or until it is asked to stop."""
    parser = argparse.ArgumentParser(prog="python -m spark_job", description=__doc__)
    parser.add_argument("--request", required=True, help="the run request, as JSON")
    request = RunRequest.model_validate_json(parser.parse_args().request)
    try:
        settings = load_settings(Path(request.config), os.environ)
        _run(request, settings)
    except IcemirrorError as error:
        log.failure("worker failed", error)
        return exit_code(error)
    return Exit.DONE


def _run(request: RunRequest, settings: Settings) -> None:
    from spark_job.tables import Tables  # heavy: after the settings proved good
    from spark_job.worker import Surroundings, run_worker

    start_logs(settings)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    me = Holder(SlotId(request.group, request.slot), request.gen, identify(os.getpid()) or request.token)
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
                stopping=stop.is_set,
                report=open_report(settings),
            ),
        )


if __name__ == "__main__":
    sys.exit(main())
