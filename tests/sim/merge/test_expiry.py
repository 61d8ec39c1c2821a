"""Many small merges: the mirror stays right, and neither its files nor the work of a merge grow with their number."""

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

from icemirror.result import Merged
from spark_job.commit import manifest_tiers
from spark_job.commit.retention import main_head
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.maintenance.orphans import clean_orphans
from tests.lab.lab import Lab, local_path
from tests.referenced import referenced_files, stored_files

KEPT = 20
OPTIONS = f"""compact: false
table_properties:
  icemirror.max-snapshots: "{KEPT}"
  history.expire.min-snapshots-to-keep: "5"
"""
MERGES = 140
# Each window is long enough for expiry, manifests, deletes and the tiers of the index to have had their turn in it.
EARLY, LATE = range(20, 60), range(100, 140)
KEYS, EVENTS, FILES = 60, 6, 10


@dataclass
class Story:
    """A changelog: commits of ten files, of which a merge takes one at a time. `history`: the rows after each file."""

    history: list[dict[int, str]] = field(default_factory=lambda: [{}])
    _dice: random.Random = field(default_factory=lambda: random.Random(21))
    _clock: int = 0

    def next_file(self) -> str:
        rows = dict(self.history[-1])
        words = list(self._change(rows))
        self.history.append(rows)
        return " ".join(words)

    def _change(self, rows: dict[int, str]) -> Iterator[str]:
        for key in self._dice.sample(range(KEYS), EVENTS):
            self._clock += 1
            word = f"{self._dice.choice('IUUD')}{key}@{self._clock}"
            rows.pop(key, None)
            if word[0] != "D":
                rows[key] = word
            yield word


@dataclass
class Effort:
    """What the merges of a window did: functions called, files read, written and deleted, and the bytes written."""

    profile: cProfile.Profile = field(default_factory=cProfile.Profile)
    reads: int = 0
    deletes: int = 0
    written: list[Path] = field(default_factory=list)
    bytes: int = 0
    root_bytes: int = 0
    greatest_metadata: int = 0

    @property
    def figures(self) -> dict[str, int]:
        """The root of the index apart: it lists the data files, and a merge adds one."""
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
        """Merges, and counts."""
        first = len(self.written)
        with monkeypatch.context() as patches:
            patches.setattr(PyArrowFile, "open", self._note(PyArrowFile.open, self._read))
            patches.setattr(PyArrowFile, "create", self._note(PyArrowFile.create, self._write))
            patches.setattr(PyArrowFileIO, "delete", self._note(PyArrowFileIO.delete, self._delete))
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

    def _note(self, call: Callable[..., Any], note: Callable[[Any], None]) -> Callable[..., Any]:
        def noted(file: Any, *arguments: Any, **named: Any) -> Any:
            note(file)
            return call(file, *arguments, **named)

        return noted

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
def test_the_last_of_many_merges_costs_what_an_early_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, factor: float
) -> None:
    """By what they do rather than by the clock: the machine may be busy."""
    monkeypatch.setattr(manifest_tiers, "_MAX_REWRITTEN_DELETES", 8)
    lab = Lab.make(tmp_path, options=f"format_version: {version}\n{OPTIONS}", tail=f"batch_size: {EVENTS}\n")
    story, early, late = Story(), Effort(), Effort()
    snapshot_ids: list[int] = []

    def merge() -> int:
        step = lab.pipeline.advance(lab.table)
        assert isinstance(step, Merged)
        return step.slice.snapshot_id

    for number in range(MERGES):
        if number % FILES == 0:
            lab.commit_events(*(story.next_file() for _ in range(FILES)))
        window = early if number in EARLY else late if number in LATE else None
        snapshot_ids.append(window.measure(merge, monkeypatch) if window else merge())
        if number == EARLY.stop:
            lab.mirror.manage_snapshots().create_tag(snapshot_ids[-1], "audit").commit()
    mirror = lab.mirror
    assert not isinstance(lab.pipeline.advance(lab.table), Merged)
    assert stored_files(tmp_path / "warehouse") == referenced_files(mirror)
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True).files == 0
    oldest = list(walk_ancestors(mirror.metadata.snapshots, main_head(mirror.metadata)))[-1].snapshot_id
    for place in (EARLY.stop, snapshot_ids.index(oldest), MERGES - 1):
        assert rows_at(lab, snapshot_ids[place]) == story.history[place + 1]
    assert len(mirror.metadata.snapshots) <= KEPT + KEPT // 10 + 2
    head = mirror.current_snapshot()
    assert head is not None
    assert len(head.manifests(mirror.io)) <= 62
    assert late.greatest_metadata <= 1.1 * early.greatest_metadata
    assert late.root_bytes - early.root_bytes <= 250 * len(LATE) * (LATE.start - EARLY.start)
    before, after = early.figures, late.figures
    grown = {name: after[name] / before[name] for name in before}
    assert max(grown.values()) <= factor, f"{before} became {after}"
