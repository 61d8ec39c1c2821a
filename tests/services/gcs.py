"""fake-gcs-server: Google Cloud Storage's JSON API, built once with Go."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision.go_programs import go_program
from tests.services.processes import HOST, answers, free_port, running

_PACKAGE = "github.com/fsouza/fake-gcs-server@v1.56.1"


@dataclass(frozen=True)
class FakeGcs:
    """A running fake-gcs-server."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def properties(self) -> dict[str, str]:
        """Return the PyIceberg properties. The server needs no token, but Arrow requires one with an expiry."""
        return {
            "gcs.service.host": self.endpoint,
            "gcs.oauth2.token": "not-checked",
            "gcs.oauth2.token-expires-at": "4102444800000",
        }

    def make_bucket(self, name: str) -> str:
        """Create an empty bucket and return its URI."""
        request = urllib.request.Request(  # noqa: S310 (loopback)
            f"{self.endpoint}/storage/v1/b?project=lab",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            return f"gs://{name}"


def fake_gcs_program() -> Path:
    """Return fake-gcs-server."""
    return go_program(_PACKAGE)


@contextmanager
def fake_gcs(folder: Path) -> Iterator[FakeGcs]:
    """Run the server with its data in memory."""
    program = fake_gcs_program()
    server = FakeGcs(free_port())
    options = ["-scheme", "http", "-host", HOST, "-port", str(server.port), "-backend", "memory"]
    # Clients resume uploads at the address that the server returns.
    command = [
        str(program),
        *options,
        "-external-url",
        server.endpoint,
        "-public-host",
        f"{HOST}:{server.port}",
    ]
    with running(
        command, folder / "fake-gcs.log", lambda: answers(f"{server.endpoint}/storage/v1/b?project=lab")
    ):
        yield server
