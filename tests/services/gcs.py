"""fake-gcs-server: Google Cloud Storage's JSON API, built once with Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cache import fetch_once
from tests.services.processes import HOST, Unavailable, answers, free_port, running

_VERSION = "v1.56.1"
_BUILD_SECONDS = 1200


@dataclass(frozen=True)
class FakeGcs:
    """A running one."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def properties(self) -> dict[str, str]:
        """PyIceberg's properties for it. It asks for no token, but Arrow wants one, with its expiry."""
        return {
            "gcs.service.host": self.endpoint,
            "gcs.oauth2.token": "nobody-checks-it",
            "gcs.oauth2.token-expires-at": "4102444800000",
        }

    def make_bucket(self, name: str) -> str:
        """An empty bucket; its address."""
        request = urllib.request.Request(  # noqa: S310 (loopback)
            f"{self.endpoint}/storage/v1/b?project=lab",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            return f"gs://{name}"


def _build(scratch: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("Go is not installed, which builds it")
    module = f"github.com/fsouza/fake-gcs-server@{_VERSION}"
    environ = {**os.environ, "GOBIN": str(scratch), "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        [go, "install", module],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"go install failed: {done.stderr[-1000:]}")
    return scratch / "fake-gcs-server"


@contextmanager
def fake_gcs(folder: Path) -> Iterator[FakeGcs]:
    """The server over memory."""
    program = fetch_once(f"servers/fake-gcs-server-{_VERSION}", _build)
    server = FakeGcs(free_port())
    options = ["-scheme", "http", "-host", HOST, "-port", str(server.port), "-backend", "memory"]
    # Uploads are continued at the address that the server names.
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
