"""ministack: an emulator of AWS, as a process that forgets all at its end.

Installed beside the environment, as locked, by hash: it wants an older boto3 than ours.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cache import fetch_once
from tests.services.processes import HOST, Unavailable, answers, free_port, running

_LOCK = Path(__file__).parents[2] / "requirements" / "ministack.txt"
_INSTALL_SECONDS = 600


@dataclass(frozen=True)
class Ministack:
    """A running one."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def ministack(folder: Path) -> Iterator[Ministack]:
    """The emulator; any credentials will do."""
    digest = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:12]
    packages = fetch_once(f"servers/ministack-{digest}", _install)
    server = Ministack(free_port())
    environ = {
        "PYTHONPATH": str(packages),
        "GATEWAY_PORT": str(server.port),
        "BIND_HOST": HOST,
        "LOG_LEVEL": "WARNING",
    }
    command, log = [sys.executable, "-m", "ministack"], folder / "ministack.log"
    health = f"{server.endpoint}/_ministack/health"
    with running(command, log, lambda: answers(health), cwd=folder, environ=environ):
        yield server


def _install(scratch: Path) -> Path:
    target = scratch / "site"
    options = ["--require-hashes", "--no-deps", "--quiet", "--target", str(target), "-r", str(_LOCK)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options],
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"pip failed: {done.stderr[-1000:]}")
    return target
