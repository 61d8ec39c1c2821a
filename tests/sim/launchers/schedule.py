"""Runs threads one at a time, in an order that a seed decides, on a simulated clock.

The product's code is unchanged: it is suspended at every effect, and may be killed there.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

SWITCH_SECONDS = 0.01  # of the clock, for each step


class Killed(BaseException):
    """The process is dead; the product does not catch this."""


class Process:
    """One thread. `wakes_at`: when it continues. `dies_in`: how many more effects it reaches; 0: no limit."""

    def __init__(self, schedule: Schedule, name: str, work: Callable[[], None]) -> None:
        self.name, self.wakes_at, self.alive, self.doomed = name, 0.0, True, False
        self.dies_in = 0
        self.error: BaseException | None = None
        self._schedule, self._work = schedule, work
        self._resume = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Run to the next effect, or the end."""
        self._resume.release()
        self._schedule.yielded.acquire()

    def wait(self) -> None:
        """Let other threads continue; called by the thread itself."""
        self._schedule.yielded.release()
        self._resume.acquire()
        if self.doomed:
            raise Killed(self.name)

    def _run(self) -> None:
        self._resume.acquire()
        try:
            if not self.doomed:
                self._work()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.alive = False
        self._schedule.yielded.release()


class Schedule:
    """Decides which thread continues."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_763_330_000.0
        self.yielded = threading.Semaphore(0)
        self.processes: list[Process] = []
        self._current: Process | None = None

    def clock(self) -> float:
        return self.now

    def spawn(self, name: str, work: Callable[[], None]) -> Process:
        process = Process(self, name, work)
        self.processes.append(process)
        return process

    def pause(self) -> None:
        """Suspend the thread before or after an effect."""
        process = self._current
        if process is None:
            return
        if process.dies_in:
            process.dies_in -= 1
            process.doomed = process.dies_in == 0
        process.wait()

    def sleep(self, seconds: float) -> None:
        """Let other threads continue until the clock has moved."""
        if self._current is not None:
            self._current.wakes_at = self.now + seconds
            self._current.wait()

    @property
    def current(self) -> str:
        return self._current.name if self._current else ""

    def step(self) -> None:
        """Let one thread continue; if all sleep, time passes first."""
        alive = [process for process in self.processes if process.alive]
        ready = [process for process in alive if process.wakes_at <= self.now]
        if not ready:
            self.now = min((process.wakes_at for process in alive), default=self.now + 1.0)
            ready = [process for process in alive if process.wakes_at <= self.now]
        self.now += SWITCH_SECONDS
        if ready:
            self.resume(self.random.choice(ready))
        self.processes = [process for process in self.processes if process.alive]

    def resume(self, process: Process) -> None:
        self._current = process
        process.step()
        self._current = None
        if process.error is not None:
            raise process.error

    def kill(self, process: Process) -> None:
        """Kill a process before its next effect."""
        process.doomed = True
        process.wakes_at = 0.0
        while process.alive:
            self.resume(process)

    def close(self) -> None:
        """End all threads."""
        for process in self.processes:
            if process.alive:
                self.kill(process)
