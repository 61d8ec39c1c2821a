"""Only new entries of a manifest list are decoded, and the result equals a full read."""

from __future__ import annotations

import random

import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg import manifests
from spark_job.iceberg.manifests import load_manifest_list, load_manifests
from spark_job.pyiceberg_private.avro import NO_RECORDS, AvroRecords
from spark_job.pyiceberg_private.manifest_files import (
    NewManifestList,
    decode_manifest_list,
    write_manifest_list,
)
from spark_job.storage.immutable_cache import clear_file_caches
from tests.lab.samples import SCHEMA, UnsteadyCatalog, data_files, manifest_of
from tests.manifests import list_manifests


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.fixture
def three(table: Table) -> list[ManifestFile]:
    return [manifest_of(table, 7, data_files(table, number)) for number in range(3)]


def _write(table: Table, name: str, listed: list[ManifestFile], codec: str = "deflate") -> str:
    path = f"{table.location()}/metadata/{name}.avro"
    write_manifest_list(NewManifestList(table.io.new_output(path), 7, None, 3, codec), listed)  # type: ignore[arg-type]
    return path


def _values(found: list[ManifestFile]) -> list[list[object]]:
    return [one._data for one in found]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_list_that_grew_at_its_front_keeps_what_was_there(
    table: Table, three: list[ManifestFile], codec: str
) -> None:
    before = decode_manifest_list(table.io, _write(table, "a", three[1:], codec))
    path = _write(table, "b", three, codec)
    after = decode_manifest_list(table.io, path, before)
    assert [one is known for one, known in zip(after.records[1:], before.records, strict=True)] == [
        True,
        True,
    ]
    assert _values(after.records) == _values(list_manifests(table.io, path))
    again = decode_manifest_list(table.io, path, after)
    assert all(one is known for one, known in zip(again.records, after.records, strict=True))


def test_whatever_a_list_became_it_is_read_right(table: Table, three: list[ManifestFile]) -> None:
    dice, before = random.Random(5), NO_RECORDS
    for number in range(40):
        listed = dice.choices(three, k=dice.randrange(5))
        path = _write(table, str(number), listed, dice.choice(["null", "deflate"]))
        before = decode_manifest_list(table.io, path, before)
        assert _values(before.records) == _values(list_manifests(table.io, path))


def test_equal_bytes_with_another_schema_are_decoded_again(table: Table, three: list[ManifestFile]) -> None:
    found = decode_manifest_list(table.io, _write(table, "a", three))
    path = _write(table, "b", three)
    other = AvroRecords(["wrong"] * 3, found.schema + " ", found.content, found.starts)
    assert _values(decode_manifest_list(table.io, path, other).records) == _values(found.records)


def test_what_is_asked_of_all_manifests_is_right_whatever_a_list_became(table: Table) -> None:
    dice = random.Random(6)
    clear_file_caches()
    every = [manifest_of(table, 7, data_files(table, number)) for number in range(6)]
    for number, one in enumerate(every):
        one[3], one[4], one[5] = dice.choice([*ManifestContent, ManifestContent.DATA]), number, number
    listed: list[ManifestFile] = []
    for number in range(60):
        kept = listed[dice.randrange(3) :]
        listed = dice.choice([[*dice.choices(every, k=dice.randrange(3)), *kept], kept[:-1]])
        found = load_manifest_list(table.io, _snapshot(_write(table, str(number), listed)))
        assert found.sequence_numbers.tolist() == [one.sequence_number for one in found.manifests]
        assert found.has_deletes == any(one.content is ManifestContent.DELETES for one in listed)
        for least in range(7):
            expected = [one for one in found.manifests if (one.sequence_number or 0) >= least]
            assert found.since(least) == expected


def test_the_newest_list_of_a_table_is_what_the_next_is_compared_with(
    table: Table, three: list[ManifestFile]
) -> None:
    clear_file_caches()
    paths = [_write(table, "a", three[1:]), _write(table, "b", three)]
    first, second = (load_manifests(table.io, _snapshot(path)) for path in paths)
    assert all(one is known for one, known in zip(second[1:], first, strict=True))
    assert load_manifests(table.io, _snapshot(paths[1])) is second
    assert manifests._newest.find(paths[0].rpartition("/")[0]) is not None


def _snapshot(manifest_list: str) -> Snapshot:
    return Snapshot(
        **{"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": manifest_list}  # type: ignore[arg-type]
    )
