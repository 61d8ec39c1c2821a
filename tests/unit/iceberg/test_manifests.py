"""The list of a snapshot's manifests is read for what is new in it, and is what it would be if all were read."""

from __future__ import annotations

import random

import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_job.files.immutable import forget_everything
from spark_job.iceberg import manifests
from spark_job.iceberg.avro import NOTHING, Decoded
from spark_job.iceberg.manifests import known_list, known_manifests
from spark_job.iceberg.seams import NewList, list_manifests_after, write_list
from tests.manifests import list_manifests
from tests.unit.iceberg.samples import SCHEMA, UnsteadyCatalog, data_files, manifest_of


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.fixture
def three(table: Table) -> list[ManifestFile]:
    return [manifest_of(table, 7, data_files(table, number)) for number in range(3)]


def _write(table: Table, name: str, listed: list[ManifestFile], codec: str = "deflate") -> str:
    path = f"{table.location()}/metadata/{name}.avro"
    write_list(NewList(table.io.new_output(path), 7, None, 3, codec), listed)  # type: ignore[arg-type]
    return path


def _values(found: list[ManifestFile]) -> list[list[object]]:
    return [one._data for one in found]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_list_that_grew_at_its_front_keeps_what_was_there(
    table: Table, three: list[ManifestFile], codec: str
) -> None:
    before = list_manifests_after(table.io, _write(table, "a", three[1:], codec))
    path = _write(table, "b", three, codec)
    after = list_manifests_after(table.io, path, before)
    assert [one is known for one, known in zip(after.records[1:], before.records, strict=True)] == [
        True,
        True,
    ]
    assert _values(after.records) == _values(list_manifests(table.io, path))
    again = list_manifests_after(table.io, path, after)
    assert all(one is known for one, known in zip(again.records, after.records, strict=True))


def test_whatever_a_list_became_it_is_read_right(table: Table, three: list[ManifestFile]) -> None:
    dice, before = random.Random(5), NOTHING
    for number in range(40):
        listed = dice.choices(three, k=dice.randrange(5))
        path = _write(table, str(number), listed, dice.choice(["null", "deflate"]))
        before = list_manifests_after(table.io, path, before)
        assert _values(before.records) == _values(list_manifests(table.io, path))


def test_the_same_bytes_of_another_schema_are_read_anew(table: Table, three: list[ManifestFile]) -> None:
    found = list_manifests_after(table.io, _write(table, "a", three))
    path = _write(table, "b", three)
    other = Decoded(["wrong"] * 3, found.schema + " ", found.content, found.starts)
    assert _values(list_manifests_after(table.io, path, other).records) == _values(found.records)


def test_what_is_asked_of_all_manifests_is_right_whatever_a_list_became(table: Table) -> None:
    dice = random.Random(6)
    forget_everything()
    every = [manifest_of(table, 7, data_files(table, number)) for number in range(6)]
    for number, one in enumerate(every):
        one[3], one[4], one[5] = dice.choice([*ManifestContent, ManifestContent.DATA]), number, number
    listed: list[ManifestFile] = []
    for number in range(60):
        kept = listed[dice.randrange(3) :]
        listed = dice.choice([[*dice.choices(every, k=dice.randrange(3)), *kept], kept[:-1]])
        found = known_list(table.io, _snapshot(_write(table, str(number), listed)))
        assert found.numbers.tolist() == [one.sequence_number for one in found.manifests]
        assert found.has_deletes == any(one.content is ManifestContent.DELETES for one in listed)
        for least in range(7):
            expected = [one for one in found.manifests if (one.sequence_number or 0) >= least]
            assert found.since(least) == expected


def test_the_newest_list_of_a_table_is_what_the_next_is_compared_with(
    table: Table, three: list[ManifestFile]
) -> None:
    forget_everything()
    paths = [_write(table, "a", three[1:]), _write(table, "b", three)]
    first, second = (known_manifests(table.io, _snapshot(path)) for path in paths)
    assert all(one is known for one, known in zip(second[1:], first, strict=True))
    assert known_manifests(table.io, _snapshot(paths[1])) is second
    assert manifests._newest.find(paths[0].rpartition("/")[0]) is not None


def _snapshot(manifest_list: str) -> Snapshot:
    return Snapshot(
        **{"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": manifest_list}  # type: ignore[arg-type]
    )
