"""Unit tests start no process, open no network socket and never sleep."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.unit.guard import Forbidden, guard


def _connect() -> None:
    with socket.socket() as client:
        client.connect(("127.0.0.1", 9))


def _bind() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


def _send() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(b"", ("127.0.0.1", 9))


def _pool() -> None:
    with ProcessPoolExecutor(1) as pool:
        pool.submit(int).result()


PLANTED: dict[str, tuple[Callable[[], object], str]] = {
    "subprocess": (lambda: subprocess.run([sys.executable, "-V"], check=True), "starts a process"),
    "os.system": (lambda: os.system("true"), "starts a process"),  # noqa: S605
    "os.fork": (os.fork, "starts a process"),
    "os.posix_spawn": (lambda: os.posix_spawn(sys.executable, ["-V"], {}), "starts a process"),
    "os.spawnv": (lambda: os.spawnv(os.P_WAIT, sys.executable, ["-V"]), "starts a process"),  # noqa: S606
    "forked process": (multiprocessing.get_context("fork").Process(target=int).start, "starts a process"),
    "spawned process": (multiprocessing.get_context("spawn").Process(target=int).start, "starts a process"),
    "process pool": (_pool, "starts a process"),
    "connect": (_connect, "opens a network socket"),
    "bind": (_bind, "opens a network socket"),
    "sendto": (_send, "opens a network socket"),
    "name lookup": (lambda: socket.getaddrinfo("localhost", 80), "opens a network socket"),
    "time.sleep": (lambda: time.sleep(0.001), "sleeps 0.001 s"),
    "asyncio.sleep": (lambda: asyncio.run(asyncio.sleep(0.001)), "sleeps 0.001 s"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_forbidden_call_is_refused(name: str) -> None:
    act, reason = PLANTED[name]
    with pytest.raises(Forbidden, match=reason):
        act()
    with pytest.raises(Forbidden, match=reason):  # also if the code under test had handled it
        guard.check()


def test_refusal_in_a_thread_fails_the_test() -> None:
    def sleep() -> None:
        with pytest.raises(Forbidden):
            time.sleep(0.001)

    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()
    with pytest.raises(Forbidden, match=r"a unit test sleeps 0\.001 s"):
        guard.check()


def test_sleep_of_zero_seconds_is_allowed() -> None:
    time.sleep(0)
