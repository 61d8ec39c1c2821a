"""A toy lake of many tables whose catalog never moves: only events report a commit.

The true heads are files that workers read. So every merge was caused by an event.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from icemirror.protocol.policy import Policy
from icemirror.result import SliceResult
from icemirror.step_results import Merged, NothingToMerge, StepResult
from tests.sim.protocol.toy_lake import NO_FIGURES, _position

CONFIG = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db"}}}}
tables:
{tables}
trigger:
  state: {{type: sqlite, path: {folder}/state.db}}
  sources: {{kafka: {{bootstrap_servers: "{servers}", topics: [commits], group_id: icemirror}}}}
"""
POLICY = Policy(
    slots=2,
    lease_seconds=5.0,
    launch_lease_seconds=2.0,
    quiet_seconds=0.05,
    max_wait_seconds=0.5,
    scale_out_seconds=2.0,
    backoff_seconds=0.05,
    backoff_factor=1.0,
)
LINGER_SECONDS = 0.5


class HintedLake:
    """Tables `shop.t0`, `shop.t1`, … in a folder."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.names = [f"shop.t{number}" for number in range(count)]

    def create(self, servers: str) -> Path:
        """Create the catalog, the heads and the configuration; return the configuration file."""
        tables = "\n".join(
            f"  - {{changelog: raw.{_short(name)}_changelog, mirror: {name}, primary_keys: [id]}}"
            for name in self.names
        )
        config = self.folder / "icemirror.yaml"
        config.write_text(CONFIG.format(folder=self.folder, servers=servers, tables=tables))
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            catalog.execute(
                "CREATE TABLE iceberg_tables "
                "(catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT)"
            )
            for name in self.names:
                row = (
                    "icemirror",
                    "raw",
                    f"{_short(name)}_changelog",
                    f"s3://lake/{_short(name)}/metadata/0.metadata.json",
                )
                catalog.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?)", row)
                self._write(self._head(name), 0)
                self._write(self._mirror(name), 0)
            catalog.commit()
        return config

    def commit(self, name: str) -> None:
        """Commit to a changelog without moving its head in the catalog."""
        self._write(self._head(name), self.head(name) + 1)

    def head(self, name: str) -> int:
        return int(self._head(name).read_text())

    def merged(self, name: str) -> int:
        return int(self._mirror(name).read_text())

    def behind(self) -> list[str]:
        return [name for name in self.names if self.merged(name) != self.head(name)]

    def advance(self, name: str) -> StepResult:
        """Merge up to the head in one slice; record two jobs that work on one table at the same time."""
        with (self.folder / f"{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.note("overlaps", name)
                fcntl.flock(lock, fcntl.LOCK_EX)
            held, head = self.merged(name), self.head(name)
            if held == head:
                return NothingToMerge(head_location=f"m{head}", mirror_status=_position([]))
            self._write(self._mirror(name), head)
        slice_result = SliceResult(
            snapshot_id=head, events=1, inserted=1, seconds=0.0, seconds_by_step={}, **NO_FIGURES
        )
        return Merged(slice=slice_result, mirror_status=_position([]))

    def note(self, file: str, line: str) -> None:
        """Append a line atomically, even if the process is killed."""
        with (self.folder / file).open("a") as notes:
            notes.write(f"{line}\n")

    def noted(self, file: str) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.folder / file).read_text().splitlines()
        return []

    def _head(self, name: str) -> Path:
        return self.folder / f"{name}.head"

    def _mirror(self, name: str) -> Path:
        return self.folder / f"{name}.mirror"

    @staticmethod
    def _write(file: Path, value: int) -> None:
        temporary = file.with_suffix(f"{file.suffix}.{os.getpid()}")
        temporary.write_text(str(value))
        temporary.replace(file)


def _short(name: str) -> str:
    return name.split(".")[1]
