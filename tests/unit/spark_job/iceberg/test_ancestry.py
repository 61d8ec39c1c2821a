from __future__ import annotations

import pytest
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt
from spark_job.iceberg.ancestry import walk_ancestors


def snapshots(parents: dict[int, int | None]) -> list[Snapshot]:
    """Return snapshots from a mapping of ids to parents."""
    return [
        Snapshot.model_validate(
            {"snapshot-id": snapshot_id, "parent-snapshot-id": parent, "manifest-list": f"list-{snapshot_id}"}
        )
        for snapshot_id, parent in parents.items()
    ]


def walk(parents: dict[int, int | None], start: int | None) -> list[int]:
    return [snapshot.snapshot_id for snapshot in walk_ancestors(snapshots(parents), start)]


def test_walk_follows_parents_until_one_is_unknown() -> None:
    assert walk({1: None, 2: 1, 3: 2, 9: 1}, 3) == [3, 2, 1]
    assert walk({2: 1, 3: 2}, 3) == [3, 2]
    assert walk({3: 2, 9: 1, 1: None, 2: 1}, 3) == [3, 2, 1]  # in any order
    assert walk({1: None}, None) == walk({1: None}, 7) == []


@pytest.mark.parametrize("parents", [{3: 3}, {1: 3, 2: 1, 3: 2}, {1: 2, 2: 1, 3: 2}])
def test_cycle_of_ancestors_is_corrupt(parents: dict[int, int | None]) -> None:
    with pytest.raises(Corrupt, match=r"contains a cycle at \d.*list-\d"):
        walk(parents, 3)


def test_cycle_is_detected_only_when_the_walk_reaches_it() -> None:
    assert next(walk_ancestors(snapshots({3: 3}), 3)).snapshot_id == 3
