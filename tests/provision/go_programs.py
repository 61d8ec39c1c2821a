"""Programs and modules that Go builds or downloads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.provision.cache import Unavailable, fetch_once

_BUILD_SECONDS = 2400


def go_program(package: str) -> Path:
    """Return the program that `go install package@version` builds."""
    path, _, version = package.partition("@")
    parts = path.split("/")
    name = parts[-2] if parts[-1][:1] == "v" and parts[-1][1:].isdecimal() else parts[-1]

    def build(scratch: Path) -> Path:
        run_go(scratch, "install", package, GOBIN=str(scratch / "bin"))
        return scratch / "bin"

    return fetch_once(f"servers/{name}-{version}", build) / name


def run_go(folder: Path, *arguments: str, **environ: str) -> str:
    """Run Go in a folder and return its output."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("Go is not installed")
    try:
        completed = subprocess.run(
            [go, *arguments],
            cwd=folder,
            env={**os.environ, "GOTOOLCHAIN": "auto", "GOFLAGS": "-buildvcs=false", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"go {arguments[0]} took longer than {_BUILD_SECONDS} s") from error
    if completed.returncode != 0:
        raise Unavailable(f"go {arguments[0]} failed: {(completed.stderr or completed.stdout)[-1000:]}")
    return completed.stdout
