"""Snapshots to expire, chosen from metadata written by the tests."""

from __future__ import annotations

import pytest
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Invalid
from spark_job.commit.expire.retention import (
    count_due_at_most,
    due_snapshots,
    gc_enabled,
    is_worth_expiring,
    read_retention,
)
from tests.unit.spark_job.commit.snapshot_history import HOUR, NOW, PROPERTIES, metadata_of


def due_ids(metadata: TableMetadata, added_snapshots: int = 0) -> list[int]:
    due = due_snapshots(metadata, NOW, added_snapshots)
    assert len(due) <= count_due_at_most(metadata, NOW, added_snapshots)
    return [snapshot.snapshot_id for snapshot in due]


def test_young_snapshots_within_the_limit_are_kept() -> None:
    assert due_ids(metadata_of([1, 2, 3, 4, 5, 6])) == []


def test_oldest_snapshots_beyond_the_limit_expire() -> None:
    assert due_ids(metadata_of([1, 2, 3, 4, 5, 6, 7, 8])) == [1, 2]


def test_snapshot_of_the_current_commit_counts() -> None:
    assert due_ids(metadata_of([1, 2, 3, 4, 5, 6]), added_snapshots=1) == [1]


def test_snapshots_beyond_the_maximum_age_expire() -> None:
    assert due_ids(metadata_of([1, 2, 3, 4], age_hours={1: 12, 2: 11, 3: 9})) == [1, 2]


def test_minimum_number_is_kept_at_any_age() -> None:
    old = dict.fromkeys(range(1, 5), 1000.0)
    assert due_ids(metadata_of([1, 2, 3, 4], age_hours=old)) == [1, 2]


def test_minimum_takes_precedence_over_maximum() -> None:
    properties = {**PROPERTIES, "history.expire.min-snapshots-to-keep": "8"}
    assert due_ids(metadata_of(list(range(1, 10)), properties=properties)) == [1]


def test_branch_retention_takes_precedence_over_the_tables() -> None:
    main = {"snapshot-id": 4, "type": "branch", "min-snapshots-to-keep": 3, "max-snapshot-age-ms": HOUR}
    metadata = metadata_of([1, 2, 3, 4], age_hours={1: 3, 2: 2}, refs={"main": main})
    assert due_ids(metadata) == [1]
    assert read_retention(metadata).age_ms == HOUR


def test_tag_keeps_only_its_snapshot() -> None:
    refs = {"audit": {"snapshot-id": 2, "type": "tag"}}
    assert due_ids(metadata_of(list(range(1, 10)), refs=refs)) == [1, 3]


def test_branch_keeps_all_its_ancestors() -> None:
    refs = {"try": {"snapshot-id": 20, "type": "branch"}}
    assert due_ids(metadata_of(list(range(1, 10)), others={20: 2}, refs=refs)) == [3]


def test_abandoned_snapshots_expire_by_age_only() -> None:
    metadata = metadata_of([1, 2], others={8: 1, 9: 1}, age_hours={8: 11, 9: 1})
    assert due_ids(metadata) == [8]


def test_foreign_snapshots_after_the_cursor_are_kept() -> None:
    """The next merge walks back from the head to the cursor."""
    metadata = metadata_of(list(range(1, 10)), cursors=[1, 2])
    assert due_ids(metadata) == [1]


def test_whole_branch_is_kept_if_no_snapshot_has_the_cursor() -> None:
    assert due_ids(metadata_of(list(range(1, 10)), cursors=[])) == []


def test_defaults_keep_a_day_and_at_most_a_hundred() -> None:
    line = list(range(1, 201))
    assert due_ids(metadata_of(line[:100], properties={})) == []
    assert due_ids(metadata_of(line[:103], properties={})) == [1, 2, 3]
    old = dict.fromkeys(line, 25.0)
    assert len(due_ids(metadata_of(line[:60], age_hours=old, properties={}))) == 40


def test_expiry_is_postponed_until_a_tenth_is_due() -> None:
    metadata = metadata_of(list(range(1, 31)))
    assert not is_worth_expiring(metadata, 2)
    assert is_worth_expiring(metadata, 3)


def test_long_history_expires_a_hundred_at_a_time() -> None:
    metadata = metadata_of(list(range(1, 3001)))
    due = due_snapshots(metadata, NOW)
    assert len(due) == 100
    assert is_worth_expiring(metadata, len(due))


def test_table_without_snapshots_expires_nothing() -> None:
    assert due_ids(metadata_of([])) == []


def test_invalid_number_in_a_property_is_refused() -> None:
    with pytest.raises(Invalid, match=r"icemirror\.max-snapshots is 'many'"):
        due_ids(metadata_of([1], properties={"icemirror.max-snapshots": "many"}))


@pytest.mark.parametrize(("value", "enabled"), [(None, True), ("true", True), ("FALSE", False)])
def test_files_are_not_deleted_if_gc_is_disabled(value: str | None, enabled: bool) -> None:
    properties = {} if value is None else {"gc.enabled": value}
    assert gc_enabled(metadata_of([1], properties=properties)) is enabled
