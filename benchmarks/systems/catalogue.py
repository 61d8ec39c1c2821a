"""The systems that can be measured. A further one is a file with its class, and an entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.messages import Start
from tests import maven

if TYPE_CHECKING:
    from benchmarks.systems.system import System

ICEBERG_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"


class Unavailable(Exception):
    """What the system needs cannot be had here."""


@dataclass(frozen=True)
class Entry:
    """A system: what people call it, what must be there, and how it is opened (in its own process)."""

    title: str
    open: Callable[[Start], System]
    jars: tuple[str, ...] = ()

    def prepare(self) -> None:
        """Fetches what the system needs, before anything is timed."""
        try:
            for coordinates in self.jars:
                maven.jar(coordinates)
        except maven.Unavailable as error:
            raise Unavailable(f"{self.title}: {error}") from error


def _icemirror(start: Start) -> System:
    from benchmarks.systems.icemirror_job import IcemirrorJob

    return IcemirrorJob(start)


def _merge_on_read(start: Start) -> System:
    from benchmarks.systems.spark_merge import MERGE_ON_READ, SparkMerge

    return SparkMerge(start, MERGE_ON_READ, ICEBERG_RUNTIME)


OURS = "icemirror"
PEER = "iceberg-merge"
SYSTEMS = {
    OURS: Entry("icemirror", _icemirror),
    PEER: Entry("Iceberg MERGE INTO", _merge_on_read, (ICEBERG_RUNTIME,)),
}
