"""A lake small enough to be killed often: changelogs are numbers in a real SQL catalog, mirrors are files.

The trigger, the state, the launcher and the worker are those of the product, as real processes.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from icemirror.errors import Conflict, Transient
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayProgress, ReplayStep
from icemirror.result import SliceResult
from icemirror.step_results import Merged, MirrorStatus, NothingToMerge, StepResult

NAMES = ("shop.orders", "shop.items")
CONFIG = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db"}}}}
tables:
  - {{namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}}
  - {{namespace: shop, changelog_table: items_changelog, mirror_table: items, primary_keys: [id]}}
"""
# Short times, and not from the configuration: loading it would take most of the time of a worker.
POLICY = Policy(
    lease_seconds=1.0,
    launch_lease_seconds=0.2,
    quiet_seconds=0.01,
    max_wait_seconds=1.0,
    backoff_seconds=0.02,
    backoff_factor=1.0,
)
LINGER_SECONDS = 0.1
_UNUSED = "updated deleted stale unchanged data_files delete_files data_bytes delete_bytes index_bytes"
NO_FIGURES: Mapping[str, int] = dict.fromkeys(_UNUSED.split(), 0)


class ToyLake:
    """Changelogs and mirrors in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        (self.folder / "icemirror.yaml").write_text(CONFIG.format(folder=self.folder))
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            catalog.execute(
                "CREATE TABLE iceberg_tables "
                "(catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT)"
            )
            for name in NAMES:
                values = ("icemirror", *f"{name}_changelog".split("."), "m0")
                catalog.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?)", values)
                self._mirror(name).write_text("[]")
            catalog.commit()

    def commit(self, name: str) -> None:
        """Add a commit to a changelog."""
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            catalog.execute(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
                (f"m{self.head(name) + 1}", f"{name.split('.')[1]}_changelog"),
            )
            catalog.commit()

    def head(self, name: str) -> int:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
            ((location,),) = catalog.execute(query, (f"{name.split('.')[1]}_changelog",)).fetchall()
        return int(location[1:])

    def merged(self, name: str) -> list[int]:
        """Return the merged commits, in the order of their merges."""
        commits: list[int] = json.loads(self._mirror(name).read_text())
        return commits

    def advance(self, name: str) -> StepResult:
        """Merge one slice: append the next commit to the mirror unless another commit was faster."""
        if (trouble := self.folder / "trouble").exists():
            trouble.unlink()
            raise Transient("the storage did not answer")
        located = self.merged(name)
        head = self.head(name)
        if len(located) == head:
            return NothingToMerge(head_location=f"m{head}", mirror_status=_position(located))
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.merged(name) != located:
                raise Conflict(f"{name} moved")
            fresh = self._mirror(name).with_suffix(".new")
            fresh.write_text(json.dumps([*located, len(located) + 1]))
            fresh.replace(self._mirror(name))
        slice_result = SliceResult(
            snapshot_id=len(located) + 1, events=1, inserted=1, seconds=0.0, seconds_by_step={}, **NO_FIGURES
        )
        return Merged(slice=slice_result, mirror_status=_position([*located, 0]))

    def replay(self, name: str, replay: Replay) -> ReplayStep:
        """Replay in two steps that change nothing."""
        return ReplayStep(ReplayProgress(mark="half"), done=replay.progress is not None)

    def _mirror(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _position(commits: list[int]) -> MirrorStatus:
    return MirrorStatus(cursor=None, live_rows=len(commits), index_bytes=0)
