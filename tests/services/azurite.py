"""Azurite, the emulator of Azure Blob Storage, installed from npm."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision.cache import Unavailable, fetch_once
from tests.services.processes import HOST, free_port, listens, running

_VERSION = "3.35.0"
# The default account of every Azurite; it is public.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_INSTALL_SECONDS = 600


@dataclass(frozen=True)
class Azurite:
    """A running Azurite server."""

    port: int

    @property
    def connection_string(self) -> str:
        endpoint = f"http://{HOST}:{self.port}/{ACCOUNT}"
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
        )

    def properties(self) -> dict[str, str]:
        """Return the PyIceberg properties of this server."""
        return {
            "adls.connection-string": self.connection_string,
            "adls.account-name": ACCOUNT,
            "adls.account-key": KEY,
        }

    def make_container(self, name: str) -> str:
        """Create an empty container and return its URI."""
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(self.connection_string) as client:
            client.create_container(name)
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"


def _install(scratch: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm, which installs Azurite, is missing")
    folder = scratch / "azurite"
    options = ["--no-fund", "--no-audit", "--ignore-scripts", f"--prefix={folder}"]
    done = subprocess.run(
        [npm, "install", *options, f"azurite@{_VERSION}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"npm install failed: {done.stderr[-1000:]}")
    return folder


def azurite_packages() -> Path:
    """Return the folder that Azurite is installed in."""
    return fetch_once(f"servers/azurite-{_VERSION}", _install)


@contextmanager
def azurite(folder: Path) -> Iterator[Azurite]:
    """Run the blob service with its data in a folder."""
    node = shutil.which("node")
    if node is None:
        raise Unavailable("Node.js, which runs Azurite, is missing")
    program = azurite_packages() / "node_modules/azurite/dist/src/blob/main.js"
    server = Azurite(free_port())
    options = ["--blobHost", HOST, "--blobPort", str(server.port), "--location", str(folder), "--silent"]
    command = [node, str(program), *options, "--skipApiVersionCheck", "--disableTelemetry"]
    with running(command, folder / "azurite.log", lambda: listens(server.port), cwd=folder):
        yield server
