"""ministack: an emulator of AWS, as a process with its state in memory.

It is installed outside the environment, with locked hashes, because it requires an older boto3 than ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision import python_packages
from tests.services.processes import HOST, answers, free_port, running


@dataclass(frozen=True)
class Ministack:
    """A running emulator."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def ministack(folder: Path) -> Iterator[Ministack]:
    """Run the emulator; it accepts any credentials."""
    server = Ministack(free_port())
    environ = {
        "PYTHONPATH": str(python_packages.ministack()),
        "GATEWAY_PORT": str(server.port),
        "BIND_HOST": HOST,
        "LOG_LEVEL": "WARNING",
    }
    command, log = [sys.executable, "-m", "ministack"], folder / "ministack.log"
    health = f"{server.endpoint}/_ministack/health"
    with running(command, log, lambda: answers(health), cwd=folder, environ=environ):
        yield server
