"""moto's EMR Serverless as a server, closer to AWS: the first job starts an application.

`python -m tests.infra.emr_server PORT STATE`. A started application can neither be changed nor deleted. All job runs
are in the given state.
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
    """Yield the address of the server."""
    port = free_port()
    address = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "tests.infra.emr_server", str(port), job_state]
    environ = {"MOTO_ACCOUNT_ID": ACCOUNT}
    root = Path(__file__).parents[2]
    with running(command, folder / "emr.log", lambda: answers(address), cwd=root, environ=environ):
        yield address


def main() -> None:
    """Serve until the process ends."""
    from moto.emrserverless import models
    from moto.server import ThreadedMotoServer

    create = models.EMRServerlessBackend.create_application
    start = models.EMRServerlessBackend.start_job_run

    def create_application(backend: Any, *rest: Any, **named: Any) -> Any:
        application = create(backend, *rest, **named)
        backend.job_runs[application.id] = []  # moto raises KeyError for an application without runs
        return application

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
