"""Runs the seeds of a campaign in processes; a process that hangs or dies is reported and replaced."""

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

from tests.soak.campaign import Campaign, SeedResult


class Unready(Exception):
    """The campaign cannot run on this machine."""


class Worker:
    """A worker process, as its parent controls it."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._start()

    def _start(self) -> None:
        processes = get_context("spawn")
        self._pipe, child_pipe = processes.Pipe()
        self._process = processes.Process(target=_serve, args=(self.campaign, child_pipe), daemon=True)
        self._process.start()
        child_pipe.close()
        if reason := self._pipe.recv():
            raise Unready(reason)

    def try_seed(self, seed: int, bug: str | None = None) -> SeedResult:
        """Run a seed in the process; never raises."""
        began, patience = time.monotonic(), self.campaign.patience_seconds
        why = f"it took more than {patience} s"
        try:
            self._pipe.send((seed, bug))
            # Poll second by second: if this process is suspended, its worker is as well.
            if any(self._pipe.poll(1) for _ in range(patience)):
                result: SeedResult = self._pipe.recv()
                return result
        except (EOFError, ConnectionError):
            self._process.join()
            why = f"the process died: {self._process.exitcode}"
        self.close()
        self._start()
        return SeedResult(seed, time.monotonic() - began, why=why)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def try_seeds(
    campaign: Campaign, seconds: float, first: int, failed: Sequence[int] = ()
) -> Iterator[SeedResult]:
    """Run failed seeds, then those from `first` on, in all processes until the time is up; at least one in each."""
    seeds = itertools.chain(failed, itertools.count(first))
    results: queue.Queue[SeedResult | Exception | None] = queue.Queue()

    def drive() -> None:
        try:
            with closing(Worker(campaign)) as worker:
                results.put(worker.try_seed(next(seeds)))
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    results.put(worker.try_seed(next(seeds)))
        except Exception as error:
            results.put(error)
        results.put(None)

    drivers = [threading.Thread(target=drive, daemon=True) for _ in range(campaign.processes)]
    for driver in drivers:
        driver.start()
    running = len(drivers)
    while running:
        match results.get():
            case None:
                running -= 1
            case SeedResult() as result:
                yield result
            case error:
                raise error


def try_seed(campaign: Campaign, seed: int, bug: str | None = None) -> SeedResult:
    """Run one seed in this process; never raises."""
    began, clock = time.process_time(), time.monotonic()
    try:
        counts = campaign.run(seed, bug)
    except Exception:
        return SeedResult(seed, time.monotonic() - clock, {}, _peak_bytes(), traceback.format_exc())
    spent = time.process_time() - began
    slow = campaign.most_seconds is not None and spent > campaign.most_seconds
    why = f"it took {spent:.0f} s of the processor" if slow else None
    return SeedResult(seed, time.monotonic() - clock, counts, _peak_bytes(), why)


def _serve(campaign: Campaign, pipe: Connection) -> None:
    """Run in the child: answer until the pipe is closed."""
    try:
        campaign.prepare()
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send(None)
    logging.disable()
    while True:
        try:
            seed, bug = pipe.recv()
        except EOFError:
            return
        pipe.send(try_seed(campaign, seed, bug))


def _peak_bytes() -> int:
    """Return the peak memory of this process; Linux reports KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
