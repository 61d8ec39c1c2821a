"""Added files go into manifests that are rewritten anyway."""

from __future__ import annotations

import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from spark_job.commit import choose_manifests
from tests.lab.manifests import manifests, sequence_numbers
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    data_files,
    delete_files,
    ids_of,
    make_delta,
)


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.fixture
def merging(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA, properties={"commit.manifest.min-count-to-merge": "3"})


def counts(table: Table, content: ManifestContent) -> list[tuple[int | None, int | None]]:
    """Return how many added and existing files each manifest of a kind has."""
    return [
        (manifest.added_files_count, manifest.existing_files_count)
        for manifest in manifests(table)
        if manifest.content is content
    ]


def test_added_files_go_into_a_rewritten_manifest(merging: Table) -> None:
    for number in range(3):
        commit_ids(merging, number)
    assert counts(merging, ManifestContent.DATA) == [(1, 0)] * 3
    commit_ids(merging, 3)
    assert counts(merging, ManifestContent.DATA) == [(1, 3)]
    assert [numbers[1] for numbers in sequence_numbers(merging).values()] == [4, 3, 2, 1]


def test_added_files_go_into_a_manifest_with_room(merging: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [commit_ids(merging, number, number + 100) for number in range(5)]
    monkeypatch.setattr(choose_manifests, "_MAX_REWRITTEN_DELETES", 2)
    for path in paths[:4]:
        make_delta(merging, deletes=delete_files(merging.refresh(), {path: [1]})).commit()
    assert sorted(counts(merging, ManifestContent.DELETES)) == [(0, 2), (1, 1)]
    make_delta(merging, deletes=delete_files(merging.refresh(), {paths[4]: [1]})).commit()
    assert sorted(counts(merging, ManifestContent.DELETES)) == [(0, 2), (1, 0), (1, 1)]
    assert ids_of(merging) == list(range(5))


def test_manifests_that_stay_keep_their_order(table: Table) -> None:
    """A cached manifest list then still covers the end of the next one."""
    path = commit_ids(table, 1, 2, 3)
    for position in range(2):
        make_delta(table, data_files(table, 4), delete_files(table.refresh(), {path: [position]})).commit()
    before = [manifest.manifest_path for manifest in manifests(table)]
    make_delta(table, data_files(table, 5), delete_files(table, {path: [2]})).commit()
    assert [manifest.manifest_path for manifest in manifests(table)][2:] == before
