"""Tombstones expire; late events of keys without a tombstone are checked against the changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_job import pipeline
from spark_job.engine.engine import InProcessEngine
from spark_job.index import tiers
from spark_job.index.root import Root, read_root
from spark_job.plan.table_plan import TablePlan
from tests.lab.lab import Lab


@pytest.fixture(autouse=True)
def fast_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge runs of the index as soon as there are two."""
    monkeypatch.setattr(tiers, "FAN_IN", 2)


def root(lab: Lab) -> Root:
    return read_root(lab.mirror.io, lab.mirror.metadata.properties["icemirror.index-root"])


def make(folder: Path, retention: str, shards: int = 1) -> Lab:
    lab = Lab.make(folder, options=f"tombstone_retention: {retention}", engine=InProcessEngine(shards))
    lab.commit_events("I1@10 I2@20 I3@30")
    lab.merge()
    lab.commit_events("D1@40 D3@60 D9@50")
    lab.merge()
    for number in range(4):
        lab.commit_events(f"U2@{100 + number}")
        lab.merge()
    return lab


@pytest.mark.parametrize("shards", [1, 3])
def test_late_events_stay_stale_after_their_tombstones_expired(tmp_path: Path, shards: int) -> None:
    lab = make(tmp_path, "0s", shards)
    assert sum(segment.tombstones for segment in root(lab).segments) == 0
    expired = root(lab).newest_expired_tombstone_order
    assert expired is not None
    assert expired[0] == 60
    lab.commit_events("U1@39=old I3@59=old I9@49=old I5@45=never-deleted I6@200")
    result = lab.merge().slices[0]
    assert lab.rows() == {2: "U2@103", 5: "never-deleted", 6: "I6@200"}
    assert (result.stale, result.inserted) == (3, 2)
    lab.commit_events("I1@41=back")
    lab.merge()
    assert lab.rows()[1] == "back"


def test_late_delete_after_tombstone_expiry_leaves_no_older_tombstone(tmp_path: Path) -> None:
    lab = make(tmp_path, "0s")
    lab.commit_events("D3@40")
    lab.merge()
    lab.commit_events("U3@45=old")
    assert lab.merge().slices[0].stale == 1
    assert 3 not in lab.rows()


def test_tombstones_within_the_retention_stay(tmp_path: Path) -> None:
    lab = make(tmp_path, "1h")
    assert sum(segment.tombstones for segment in root(lab).segments) == 3
    assert root(lab).newest_expired_tombstone_order is None
    lab.commit_events("U1@39=old I3@59=old")
    assert lab.merge().slices[0].stale == 2


def test_tombstone_stays_while_an_older_run_has_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options="tombstone_retention: 0s")
    lab.commit_events(" ".join(f"I{key}@10" for key in range(200)))
    lab.merge()
    monkeypatch.setattr(
        tiers, "_TIER_0_ENTRIES", 16
    )  # the first run is too large to be merged with the others
    lab.commit_events("D1@40")
    lab.merge()
    lab.commit_events("D2@41")
    lab.merge()
    lab.commit_events("D3@42")
    lab.merge()
    assert sum(segment.tombstones for segment in root(lab).segments) == 3
    assert set(lab.rows()) == set(range(200)) - {1, 2, 3}


def test_only_events_not_newer_than_an_expired_tombstone_read_the_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, "0s")
    reads: list[object] = []

    def record_read(table_plan: TablePlan) -> list[object]:
        reads.append(table_plan)
        return []

    monkeypatch.setattr(pipeline, "merged_files", record_read)
    lab.commit_events("I20@300 I21@61 D22@500 U2@110")
    lab.merge()
    assert not reads
    lab.commit_events("I23@59")
    lab.merge()
    assert len(reads) == 1
