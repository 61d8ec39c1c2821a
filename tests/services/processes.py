"""Servers as processes of the tests: a log each, ready when they answer, gone when the tests are."""

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

LEASH = Path(__file__).with_name("leash.py")
HOST = "127.0.0.1"
READY_SECONDS = 120.0
LOG_TAIL_CHARACTERS = 1500


class Unavailable(Exception):
    """The server cannot be run here."""


class DidNotStart(Exception):
    """The server is here, but ended or stayed silent; its log is in the message."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def java(at_least: int) -> tuple[str, ...]:
    """The oldest Java that is new enough, told that it will not run for long."""
    found = [one for one in installed_javas(os.environ, USUAL_LOCATIONS) if one.major >= at_least]
    if not found:
        raise Unavailable(f"it needs Java {at_least} or newer")
    program = min(found, key=lambda one: one.major).home / "bin" / "java"
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
    """A server, once `ready`; ended at the end of the block, or with this process."""
    leashed = [sys.executable, str(LEASH), *command]
    with log.open("wb") as out:
        process = subprocess.Popen(
            leashed,
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
    end = time.monotonic() + seconds
    while not ready():
        ended = process.poll()
        if ended is not None:
            raise DidNotStart(f"{log.stem} ended with {ended}:\n{tail(log)}")
        if time.monotonic() > end:
            raise DidNotStart(f"{log.stem} did not answer for {seconds:.0f} s:\n{tail(log)}")
        time.sleep(0.1)


def tail(log: Path) -> str:
    """The end of a log."""
    return log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


def answers(address: str) -> bool:
    """Does an HTTP server say anything at all, be it a refusal?"""
    try:
        with urllib.request.urlopen(address, timeout=2):  # noqa: S310 (loopback)
            return True
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return True
    except OSError:
        return False


def listens(port: int) -> bool:
    """Does anybody take connections?"""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
