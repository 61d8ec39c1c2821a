"""Many small merges: the mirror stays correct, and neither its files nor the cost of a merge grow with their number."""

from __future__ import annotations

import cProfile
import pstats
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from icemirror.step_results import Merged
from spark_job.commit import choose_manifests
from spark_job.commit.expire.retention import main_head
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.maintenance.orphans import clean_orphans
from tests.lab.lab import Lab, local_path
from tests.lab.referenced_files import referenced_files, stored_files

KEPT = 20
OPTIONS = f"""compact: false
table_properties:
  icemirror.max-snapshots: "{KEPT}"
  history.expire.min-snapshots-to-keep: "5"
"""
MERGES = 140
# In each window there is expiry and compaction of manifests, deletes and index tiers.
EARLY, LATE = range(20, 60), range(100, 140)
KEYS, EVENTS, FILES = 60, 6, 10


@dataclass
class Changelog:
    """Generates commits of ten files; a slice is one file. `history`: the rows after each file."""

    history: list[dict[int, str]] = field(default_factory=lambda: [{}])
    _dice: random.Random = field(default_factory=lambda: random.Random(21))
    _clock: int = 0

    def next_file(self) -> str:
        rows = dict(self.history[-1])
        events = list(self._change(rows))
        self.history.append(rows)
        return " ".join(events)

    def _change(self, rows: dict[int, str]) -> Iterator[str]:
        for key in self._dice.sample(range(KEYS), EVENTS):
            self._clock += 1
            event = f"{self._dice.choice('IUUD')}{key}@{self._clock}"
            rows.pop(key, None)
            if event[0] != "D":
                rows[key] = event
            yield event


@dataclass
class Cost:
    """The cost of the merges of a window: functions called, files read, written and deleted, and bytes written."""

    profile: cProfile.Profile = field(default_factory=cProfile.Profile)
    reads: int = 0
    deletes: int = 0
    written: list[Path] = field(default_factory=list)
    bytes: int = 0
    root_bytes: int = 0
    greatest_metadata: int = 0

    @property
    def figures(self) -> dict[str, int]:
        """All figures without the index root, which lists the data files and grows by one with each merge."""
        calls: int = pstats.Stats(self.profile).total_calls  # type: ignore[attr-defined]
        written, rest = len(self.written), self.bytes - self.root_bytes
        return {
            "calls": calls,
            "reads": self.reads,
            "writes": written,
            "deletes": self.deletes,
            "bytes": rest,
        }

    def measure(self, merge: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> int:
        """Merge, and add the cost."""
        first = len(self.written)
        with monkeypatch.context() as patches:
            patches.setattr(PyArrowFile, "open", self._recording(PyArrowFile.open, self._read))
            patches.setattr(PyArrowFile, "create", self._recording(PyArrowFile.create, self._write))
            patches.setattr(PyArrowFileIO, "delete", self._recording(PyArrowFileIO.delete, self._delete))
            self.profile.enable()
            try:
                snapshot_id = merge()
            finally:
                self.profile.disable()
        sizes = {path: path.stat().st_size for path in self.written[first:] if path.exists()}
        self.bytes += sum(sizes.values())
        self.root_bytes += sum(size for path, size in sizes.items() if path.name.endswith(".root.puffin"))
        metadata = [size for path, size in sizes.items() if path.name.endswith(".metadata.json")]
        self.greatest_metadata = max(self.greatest_metadata, *metadata)
        return snapshot_id

    def _recording(self, call: Callable[..., Any], record: Callable[[Any], None]) -> Callable[..., Any]:
        def recorded(file: Any, *arguments: Any, **named: Any) -> Any:
            record(file)
            return call(file, *arguments, **named)

        return recorded

    def _read(self, _file: PyArrowFile) -> None:
        self.reads += 1

    def _write(self, file: PyArrowFile) -> None:
        self.written.append(local_path(file.location))

    def _delete(self, _io: PyArrowFileIO) -> None:
        self.deletes += 1


def rows_at(lab: Lab, snapshot_id: int) -> dict[int, str]:
    found = lab.mirror.scan(snapshot_id=snapshot_id).to_arrow()
    rows = dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows, "a key has two rows"
    return rows


@pytest.mark.parametrize(("version", "factor"), [(2, 1.25), (3, 1.5)])
def test_cost_of_a_merge_does_not_grow_with_the_number_of_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, factor: float
) -> None:
    """Compares calls and files rather than time: the machine may be busy."""
    monkeypatch.setattr(choose_manifests, "_MAX_REWRITTEN_DELETES", 8)
    lab = Lab.make(
        tmp_path, options=f"format_version: {version}\n{OPTIONS}", extra_config=f"batch_size: {EVENTS}\n"
    )
    changelog, early, late = Changelog(), Cost(), Cost()
    snapshot_ids: list[int] = []

    def merge() -> int:
        step = lab.pipeline.advance(lab.table)
        assert isinstance(step, Merged)
        return step.slice.snapshot_id

    for number in range(MERGES):
        if number % FILES == 0:
            lab.commit_events(*(changelog.next_file() for _ in range(FILES)))
        window = early if number in EARLY else late if number in LATE else None
        snapshot_ids.append(window.measure(merge, monkeypatch) if window else merge())
        if number == EARLY.stop:
            lab.mirror.manage_snapshots().create_tag(snapshot_ids[-1], "audit").commit()
    mirror = lab.mirror
    assert not isinstance(lab.pipeline.advance(lab.table), Merged)
    assert stored_files(tmp_path / "warehouse") == referenced_files(mirror)
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True).files == 0
    oldest = list(walk_ancestors(mirror.metadata.snapshots, main_head(mirror.metadata)))[-1].snapshot_id
    for merge_number in (EARLY.stop, snapshot_ids.index(oldest), MERGES - 1):
        assert rows_at(lab, snapshot_ids[merge_number]) == changelog.history[merge_number + 1]
    assert len(mirror.metadata.snapshots) <= KEPT + KEPT // 10 + 2
    head = mirror.current_snapshot()
    assert head is not None
    assert len(head.manifests(mirror.io)) <= 62
    assert late.greatest_metadata <= 1.1 * early.greatest_metadata
    assert late.root_bytes - early.root_bytes <= 250 * len(LATE) * (LATE.start - EARLY.start)
    before, after = early.figures, late.figures
    grown = {name: after[name] / before[name] for name in before}
    assert max(grown.values()) <= factor, f"{before} became {after}"
