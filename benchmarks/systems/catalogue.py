"""The measured systems. To add one, write a file with its class and add an entry to `SYSTEMS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.messages import Start
from tests.provision import maven, python_packages
from tests.provision.cache import Unavailable

if TYPE_CHECKING:
    from benchmarks.systems.system import System

ICEBERG_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
DELTA = ("io.delta:delta-spark_2.13:4.0.1", "io.delta:delta-storage:4.0.1")
HUDI = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
PAIMON = "org.apache.paimon:paimon-spark-3.5:0.9.0"


@dataclass(frozen=True)
class SystemEntry:
    """A system: its display name, its requirements, and how it is opened (in a separate process).

    `old_spark`: its jar is built for Spark 3.5, and it runs on PySpark 3.5 instead of the environment's.
    """

    title: str
    open: Callable[[Start], System]
    jars: tuple[str, ...] = ()
    old_spark: bool = False

    def prepare(self) -> None:
        """Download the system's requirements, before anything is timed."""
        try:
            for coordinates in self.jars:
                maven.jar(coordinates)
            self.python_path()
        except Unavailable as error:
            raise Unavailable(f"{self.title}: {error}") from error

    def python_path(self) -> Path | None:
        """Return the folder of another PySpark, if the system needs one."""
        return python_packages.pyspark35() if self.old_spark else None


def _icemirror(start: Start) -> System:
    from benchmarks.systems.icemirror_job import IcemirrorJob

    return IcemirrorJob(start)


def _merge_on_read(start: Start) -> System:
    from benchmarks.systems.iceberg_merge import MERGE_ON_READ, IcebergMerge

    return IcebergMerge(start, MERGE_ON_READ, ICEBERG_RUNTIME)


def _copy_on_write(start: Start) -> System:
    from benchmarks.systems.iceberg_merge import COPY_ON_WRITE, IcebergMerge

    return IcebergMerge(start, COPY_ON_WRITE, ICEBERG_RUNTIME)


def _delta(start: Start) -> System:
    from benchmarks.systems.delta_merge import DeltaMerge

    return DeltaMerge(start, DELTA)


def _hudi(start: Start) -> System:
    from benchmarks.systems.hudi_upsert import HudiUpsert

    return HudiUpsert(start, HUDI)


def _paimon(start: Start) -> System:
    from benchmarks.systems.paimon_upsert import PaimonUpsert

    return PaimonUpsert(start, PAIMON)


OURS = "icemirror"
PEER = "iceberg-merge"
SYSTEMS = {
    OURS: SystemEntry("icemirror", _icemirror),
    PEER: SystemEntry("Iceberg MERGE, merge-on-read v3", _merge_on_read, (ICEBERG_RUNTIME,)),
    "iceberg-cow": SystemEntry("Iceberg MERGE, copy-on-write", _copy_on_write, (ICEBERG_RUNTIME,)),
    "delta": SystemEntry("Delta MERGE", _delta, DELTA),
    "hudi": SystemEntry("Hudi, record index", _hudi, (HUDI,), old_spark=True),
    "paimon": SystemEntry("Paimon, blind upsert", _paimon, (PAIMON,), old_spark=True),
}
