"""A system in a separate process, as the benchmark controls it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Self, TypeVar

from benchmarks.messages import (
    ANSWER,
    Apply,
    Failed,
    Inspect,
    Inspection,
    Load,
    Ready,
    Request,
    Scan,
    Scanned,
    Start,
    Timed,
)

_ROOT = Path(__file__).resolve().parents[1]
_STOP_SECONDS = 30
_TAIL_CHARACTERS = 3000
_Reply = TypeVar("_Reply", Ready, Timed, Inspection, Scanned)


class SystemFailed(Exception):
    """A system's process gave no usable response; the message contains the end of its log."""


class Process:
    """Starts a child process and sends it requests; a context manager, because children must not outlive the run."""

    def __init__(self, name: str, log: Path, timeout_seconds: float, python_path: Path | None = None) -> None:
        self.name = name
        self._log = log
        self._timeout_seconds = timeout_seconds
        self._python_path = python_path  # of a different PySpark than the environment's

    @property
    def group(self) -> int:
        """Return the process group of the child, its Java and its Python workers."""
        return self._child.pid

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.child", self.name],
                cwd=_ROOT,
                env=self._environ(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # its Java and Python workers form a group that can be ended together
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        stdin, stdout = self._pipes()
        with suppress(OSError):
            stdin.close()
        try:
            self._child.wait(0 if kind else _STOP_SECONDS)  # not awaited after a failure or Ctrl-C
        except subprocess.TimeoutExpired:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        finally:
            stdout.close()

    def start(self, request: Start) -> Ready:
        """Start the system."""
        return self._request(request, Ready)

    def load(self, request: Load) -> Timed:
        """Load a base table."""
        return self._request(request, Timed)

    def apply(self, request: Apply) -> Timed:
        """Apply a batch."""
        return self._request(request, Timed)

    def inspect(self, request: Inspect) -> Inspection:
        """Request the state of a table."""
        return self._request(request, Inspection)

    def scan(self, request: Scan) -> Scanned:
        """Read a table that another system wrote."""
        return self._request(request, Scanned)

    def _request(self, request: Request, kind: type[_Reply]) -> _Reply:
        stdin, _ = self._pipes()
        try:
            stdin.write(request.model_dump_json().encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise SystemFailed(f"{self.name}: ended before {request.do}\n{self._tail()}") from error
        response = ANSWER.validate_json(self._read_line(request.do))
        if isinstance(response, Failed):
            raise SystemFailed(f"{self.name}: {request.do} failed: {response.message}\n{self._tail()}")
        if not isinstance(response, kind):
            raise SystemFailed(f"{self.name}: {request.do} got the response {response.answer}")
        return response

    def _read_line(self, request_name: str) -> bytes:
        _, stdout = self._pipes()
        deadline = time.monotonic() + self._timeout_seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise SystemFailed(
                        f"{self.name}: {request_name} took longer than {self._timeout_seconds:.0f} s\n{self._tail()}"
                    )
                piece = os.read(stdout.fileno(), 65536)
                if not piece:
                    raise SystemFailed(f"{self.name}: ended during {request_name}\n{self._tail()}")
                line += piece
        return line

    def _environ(self) -> dict[str, str]:
        environ = dict(os.environ)
        if self._python_path is not None:
            environ.pop("SPARK_HOME", None)
            inherited = environ.get("PYTHONPATH")
            environ["PYTHONPATH"] = os.pathsep.join(
                [str(self._python_path), *([inherited] if inherited else [])]
            )
        return environ

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        stdin, stdout = self._child.stdin, self._child.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the child was started without pipes")
        return stdin, stdout

    def _tail(self) -> str:
        """Return the end of the child's log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:]
