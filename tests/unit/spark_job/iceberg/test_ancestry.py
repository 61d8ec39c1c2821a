from __future__ import annotations

import pytest
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt
from spark_job.iceberg.ancestry import walk_ancestors


def snapshots(parents: dict[int, int | None]) -> list[Snapshot]:
    """Snapshots by id, with their parents."""
    return [
        Snapshot.model_validate(
            {"snapshot-id": one, "parent-snapshot-id": parent, "manifest-list": f"list-{one}"}
        )
        for one, parent in parents.items()
    ]


def walk(parents: dict[int, int | None], start: int | None) -> list[int]:
    return [one.snapshot_id for one in walk_ancestors(snapshots(parents), start)]


def test_the_way_back_goes_parent_by_parent_as_far_as_they_are_known() -> None:
    assert walk({1: None, 2: 1, 3: 2, 9: 1}, 3) == [3, 2, 1]
    assert walk({2: 1, 3: 2}, 3) == [3, 2]
    assert walk({3: 2, 9: 1, 1: None, 2: 1}, 3) == [3, 2, 1]  # in any order
    assert walk({1: None}, None) == walk({1: None}, 7) == []


@pytest.mark.parametrize("parents", [{3: 3}, {1: 3, 2: 1, 3: 2}, {1: 2, 2: 1, 3: 2}])
def test_a_cycle_of_ancestors_is_corrupt(parents: dict[int, int | None]) -> None:
    with pytest.raises(Corrupt, match=r"contains a cycle at \d.*list-\d"):
        walk(parents, 3)


def test_a_cycle_outside_the_walk_is_ignored() -> None:
    assert next(walk_ancestors(snapshots({3: 3}), 3)).snapshot_id == 3
