"""A process that runs the seeds of a campaign. Whoever hangs or dies is told of, and replaced."""

from __future__ import annotations

import itertools
import logging
import queue
import resource
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection

from tests.soak.campaign import Campaign, Told


class Unready(Exception):
    """A process cannot run the campaign's seeds here."""


class Worker:
    """The process as seen from here."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._start()

    def _start(self) -> None:
        processes = get_context("spawn")
        self._line, theirs = processes.Pipe()
        self._process = processes.Process(target=_serve, args=(self.campaign, theirs), daemon=True)
        self._process.start()
        theirs.close()
        if reason := self._line.recv():
            raise Unready(reason)

    def tell(self, seed: int, bug: str | None = None) -> Told:
        """What became of a seed; never fails."""
        began, patience = time.monotonic(), self.campaign.patience_seconds
        why = f"it took more than {patience} s"
        try:
            self._line.send((seed, bug))
            # A second at a time: while this process was stopped, so were the others.
            if any(self._line.poll(1) for _ in range(patience)):
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


def tell_for(campaign: Campaign, seconds: float, first: int, failed: Sequence[int] = ()) -> Iterator[Told]:
    """Seeds that failed, then those from the first on, one after the other in each process, until the time is over; at
    least one in each."""
    seeds = itertools.chain(failed, itertools.count(first))
    told: queue.Queue[Told | Exception | None] = queue.Queue()

    def drive() -> None:
        try:
            with closing(Worker(campaign)) as worker:
                told.put(worker.tell(next(seeds)))
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    told.put(worker.tell(next(seeds)))
        except Exception as error:
            told.put(error)
        told.put(None)

    drivers = [threading.Thread(target=drive, daemon=True) for _ in range(campaign.processes)]
    for driver in drivers:
        driver.start()
    left = len(drivers)
    while left:
        match told.get():
            case None:
                left -= 1
            case Told() as one:
                yield one
            case error:
                raise error


def tell(campaign: Campaign, seed: int, bug: str | None = None) -> Told:
    """Runs one seed in this process; never fails."""
    began, clock = time.process_time(), time.monotonic()
    try:
        counts = campaign.run(seed, bug)
    except Exception:
        return Told(seed, time.monotonic() - clock, {}, _peak(), traceback.format_exc())
    spent = time.process_time() - began
    slow = campaign.most_seconds is not None and spent > campaign.most_seconds
    why = f"it took {spent:.0f} s of the processor" if slow else None
    return Told(seed, time.monotonic() - clock, counts, _peak(), why)


def _serve(campaign: Campaign, line: Connection) -> None:
    """The other end: answers until nobody asks."""
    try:
        campaign.prepare()
    except Exception as error:
        line.send(f"{type(error).__name__}: {error}")
        return
    line.send(None)
    logging.disable()
    while True:
        try:
            seed, bug = line.recv()
        except EOFError:
            return
        line.send(tell(campaign, seed, bug))


def _peak() -> int:
    """The most memory that this process ever had; Linux tells in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
