"""Servers as child processes of the tests: each has a log, is ready when it responds, and ends with the tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from spark_job.engine.java import USUAL_LOCATIONS, installed_javas
from tests.provision.cache import Unavailable

DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
HOST = "127.0.0.1"
READY_SECONDS = 120.0
LOG_TAIL_CHARACTERS = 1500


class DidNotStart(Exception):
    """The server exited or did not respond; its log is in the message."""


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def java(at_least: int) -> tuple[str, ...]:
    """Return the command of the oldest Java that is new enough, with options for a fast start."""
    found = [
        installed for installed in installed_javas(os.environ, USUAL_LOCATIONS) if installed.major >= at_least
    ]
    if not found:
        raise Unavailable(f"the server requires Java {at_least} or newer")
    program = min(found, key=lambda installed: installed.major).home / "bin" / "java"
    return str(program), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"


@contextlib.contextmanager
def running(
    command: Sequence[str],
    log: Path,
    ready: Callable[[], bool],
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    seconds: float = READY_SECONDS,
) -> Iterator[None]:
    """Start a server and wait until it is `ready`. It ends with the block, or with this process."""
    wrapped = [sys.executable, str(DIE_WITH_PARENT), *command]
    with log.open("wb") as out:
        process = subprocess.Popen(
            wrapped,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(environ or {})},
        )
    assert process.stdin is not None
    try:
        _wait(process, log, ready, seconds)
        yield
    finally:
        process.stdin.close()
        process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        exit_code = process.poll()
        if exit_code is not None:
            raise DidNotStart(f"{log.stem} exited with {exit_code}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise DidNotStart(f"{log.stem} did not respond for {seconds:.0f} s:\n{tail(log)}")
        time.sleep(0.1)


def tail(log: Path) -> str:
    """Return the end of a log."""
    return log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


def answers(address: str) -> bool:
    """Return whether an HTTP server responds, even with an error."""
    try:
        with urllib.request.urlopen(address, timeout=2):  # noqa: S310 (loopback)
            return True
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return True
    except OSError:
        return False


def listens(port: int) -> bool:
    """Return whether a server accepts connections on this port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
