"""Mutated files for as long as told, in a process of its own that may take neither much memory nor much time."""

from __future__ import annotations

import logging
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection

from tests.sim.mutation.bugs import BUGS
from tests.sim.mutation.run import run_seed

COMMAND = "python -m tests.sim.mutation"
MOST_BYTES = 2 << 30
MOST_SECONDS = 10  # of the processor, for one file
PATIENCE_SECONDS = 120  # of the clock: others may need the processor, too


@dataclass(frozen=True)
class Told:
    """What one seed came to: how long it took, the most memory its process ever had, and why it failed, if it did."""

    seed: int
    seconds: float
    peak_bytes: int = 0
    file_class: str = ""
    ended: str = ""
    why: str | None = None


@dataclass
class Total:
    """All mutated files so far."""

    next_seed: int = 0
    files: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0
    peak_bytes: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)

    def add(self, told: Told) -> None:
        """Counts a file."""
        self.next_seed = max(self.next_seed, told.seed + 1)
        self.files += 1
        self.seconds += told.seconds
        self.longest_seconds = max(self.longest_seconds, told.seconds)
        self.peak_bytes = max(self.peak_bytes, told.peak_bytes)
        if told.why:
            self.failed.append(told.seed)
        else:
            self.ended = dict(Counter(self.ended) + Counter([f"{told.file_class}: {told.ended}"]))

    def lines(self) -> list[str]:
        """In words, by class."""
        each = self.seconds / max(self.files, 1)
        return [
            f"{self.files} mutated files, {len(self.failed)} failed",
            f"{each:.2f} s each, {self.longest_seconds:.1f} s and {self.peak_bytes >> 20} MiB at most",
            *(f"{count:8d} {name}" for name, count in sorted(self.ended.items())),
        ]


class Worker:
    """Runs seeds one after the other; whoever hangs or dies is replaced."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        processes = get_context("spawn")
        self._line, theirs = processes.Pipe()
        self._process = processes.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, seed: int, bug: str | None = None) -> Told:
        """What became of a seed; never fails."""
        began = time.monotonic()
        why = f"it took more than {PATIENCE_SECONDS} s"
        try:
            self._line.send((seed, bug))
            # A second at a time: while this process was stopped, so were the others.
            if any(self._line.poll(1) for _ in range(PATIENCE_SECONDS)):
                told: Told = self._line.recv()
                return told
        except (EOFError, ConnectionError):
            self._process.join()
            why = f"the process died: {self._process.exitcode}"
        self.close()
        self._start()
        return Told(seed, time.monotonic() - began, why=why)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()
        self._line.close()


def _serve(line: Connection) -> None:
    """The other end: answers until nobody asks."""
    limit_memory()
    logging.disable()
    while True:
        try:
            seed, bug = line.recv()
        except EOFError:
            return
        line.send(tell(seed, bug))


def limit_memory() -> None:
    """No more address space than the bound: what would take more fails where it asks for it."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def tell(seed: int, bug: str | None = None) -> Told:
    """Runs one seed in this process."""
    began = time.process_time()
    try:
        outcome = run_seed(seed, BUGS[bug] if bug else None)
    except Exception:
        return Told(seed, time.process_time() - began, _peak(), why=traceback.format_exc())
    seconds = time.process_time() - began
    why = f"it took {seconds:.0f} s of the processor" if seconds > MOST_SECONDS else None
    return Told(seed, seconds, _peak(), outcome.file_class, outcome.ended, why)


def _peak() -> int:
    """The most memory that this process ever had; Linux tells in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def tell_for(seconds: float, first: int) -> Iterator[Told]:
    """Seeds from the first on until the time is over."""
    end, seed, worker = time.monotonic() + seconds, first, Worker()
    try:
        while time.monotonic() < end:
            yield worker.tell(seed)
            seed += 1
    finally:
        worker.close()
