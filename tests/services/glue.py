"""An emulated Glue catalog that checks table versions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.processes import HOST, answers, free_port, running
from tests.services.s3proxy import REGION

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Glue:
    """A running emulator."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def properties(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the PyIceberg properties of this server, or of a proxy in front of it."""
        return {
            "type": "glue",
            "glue.endpoint": endpoint or self.endpoint,
            "glue.region": REGION,
            "glue.access-key-id": "emulated",
            "glue.secret-access-key": "emulated",
            "glue.max-retries": "2",  # the server fails on purpose
        }


@contextmanager
def glue(folder: Path) -> Iterator[Glue]:
    """Run the emulator; its tables are in memory."""
    server = Glue(free_port())
    command = [sys.executable, "-m", "tests.services.glue_server", str(server.port)]
    with running(command, folder / "glue.log", lambda: answers(server.endpoint), cwd=ROOT):
        yield server
