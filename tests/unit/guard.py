"""Unit tests start no process, open no network socket and never sleep: the guard stops and reports the call."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

# Audit events of Python (docs.python.org/3/library/audit_events.html).
FORBIDDEN = {
    "os.exec": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.spawn": "starts a process",
    "os.system": "starts a process",
    "pty.spawn": "starts a process",
    "subprocess.Popen": "starts a process",
    "socket.bind": "opens a network socket",
    "socket.connect": "opens a network socket",
    "socket.getaddrinfo": "opens a network socket",
    "socket.sendto": "opens a network socket",
}


class Forbidden(BaseException):
    """Not an `Exception`, so that no code under test handles it."""


class Guard:
    """Refuses and records forbidden actions of unit tests, while it is armed."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self._armed = False
        self._other_threads: set[int | None] = set()  # those of earlier tests

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Refuse in this block, and fail it after a refusal, even one in a thread or a handled one."""
        self.refused.clear()
        self._other_threads = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
        self._armed = True
        try:
            yield
        finally:
            self._armed = False
        self.check()

    def check(self) -> None:
        """Raise the first refusal, once."""
        refused = self.refused.copy()
        self.refused.clear()
        if refused:
            raise Forbidden(refused[0])

    def refuse(self, action: str) -> None:
        """Raise, if armed."""
        if self._armed and threading.get_ident() not in self._other_threads:
            self.refused.append(
                f"a unit test {action}: move it to tests/processes, or pass a fake clock or client"
            )
            raise Forbidden(self.refused[-1])

    def install(self) -> None:
        """Hook into this process. Call it before modules take `time.sleep` as a default."""
        sys.addaudithook(self._audit)
        sleep, sleep_async, start = time.sleep, asyncio.sleep, BaseProcess.start

        def guarded_sleep(seconds: float) -> None:
            if seconds > 0:
                self.refuse(f"sleeps {seconds} s")
            sleep(seconds)

        async def guarded_sleep_async(delay: float, result: object = None) -> object:
            if delay > 0:
                self.refuse(f"sleeps {delay} s")
            return await sleep_async(delay, result)

        def guarded_start(process: BaseProcess) -> None:
            self.refuse("starts a process (multiprocessing)")
            start(process)

        # Python 3.11 and 3.12 have no audit event for them.
        time.sleep, asyncio.sleep = guarded_sleep, guarded_sleep_async  # type: ignore[assignment]
        BaseProcess.start = guarded_start  # type: ignore[assignment]

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._armed and event in FORBIDDEN:
            self.refuse(f"{FORBIDDEN[event]} ({event} {_describe_call(event, arguments)})")


def _describe_call(event: str, arguments: tuple[object, ...]) -> object:
    """The program of a process, the address of a socket."""
    if event.startswith("socket.") and event != "socket.getaddrinfo":
        return arguments[1]
    return arguments[0] if arguments else ""


guard = Guard()
