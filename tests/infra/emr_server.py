"""moto's EMR Serverless as a server, nearer to AWS: an application is made, not started; the first job starts it.

`python -m tests.infra.emr_server PORT STATE`. While an application is started, it can neither be changed nor deleted.
Jobs are in this state from first to last.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.services.processes import HOST, answers, free_port, running

ACCOUNT = "000000000000"


@contextmanager
def emr_serverless(folder: Path, job_state: str) -> Iterator[str]:
    """Its address."""
    port = free_port()
    address = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "tests.infra.emr_server", str(port), job_state]
    environ = {"MOTO_ACCOUNT_ID": ACCOUNT}
    root = Path(__file__).parents[2]
    with running(command, folder / "emr.log", lambda: answers(address), cwd=root, environ=environ):
        yield address


def main() -> None:
    """Serves until it is ended."""
    from moto.emrserverless import models
    from moto.server import ThreadedMotoServer

    create = models.EMRServerlessBackend.create_application
    start = models.EMRServerlessBackend.start_job_run

    def create_application(backend: Any, *rest: Any, **named: Any) -> Any:
        made = create(backend, *rest, **named)
        backend.job_runs[made.id] = []  # there are none, which is no error
        return made

    def start_job_run(backend: Any, application_id: str, *rest: Any, **named: Any) -> Any:
        backend.start_application(application_id)
        return start(backend, application_id, *rest, **named)

    models.APPLICATION_STATUS = "CREATED"
    models.JOB_STATUS = sys.argv[2]
    patch.object(models.EMRServerlessBackend, "create_application", create_application).start()
    patch.object(models.EMRServerlessBackend, "start_job_run", start_job_run).start()
    ThreadedMotoServer(ip_address=HOST, port=int(sys.argv[1]), verbose=False).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
