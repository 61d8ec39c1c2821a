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
from spark_job.storage.file_cache import clear_file_caches
from tests.lab.manifests import list_manifests
from tests.lab.samples import SCHEMA, UnsteadyCatalog, data_files, manifest_of


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


def _values(manifest_files: list[ManifestFile]) -> list[list[object]]:
    return [manifest._data for manifest in manifest_files]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_list_with_new_first_entries_reuses_the_known_records(
    table: Table, three: list[ManifestFile], codec: str
) -> None:
    before = decode_manifest_list(table.io, _write(table, "a", three[1:], codec))
    path = _write(table, "b", three, codec)
    after = decode_manifest_list(table.io, path, before)
    assert [record is known for record, known in zip(after.records[1:], before.records, strict=True)] == [
        True,
        True,
    ]
    assert _values(after.records) == _values(list_manifests(table.io, path))
    repeated = decode_manifest_list(table.io, path, after)
    assert all(record is known for record, known in zip(repeated.records, after.records, strict=True))


def test_list_is_decoded_correctly_after_random_changes(table: Table, three: list[ManifestFile]) -> None:
    rng, before = random.Random(5), NO_RECORDS
    for number in range(40):
        listed = rng.choices(three, k=rng.randrange(5))
        path = _write(table, str(number), listed, rng.choice(["null", "deflate"]))
        before = decode_manifest_list(table.io, path, before)
        assert _values(before.records) == _values(list_manifests(table.io, path))


def test_equal_bytes_with_another_schema_are_decoded_again(table: Table, three: list[ManifestFile]) -> None:
    decoded = decode_manifest_list(table.io, _write(table, "a", three))
    path = _write(table, "b", three)
    other = AvroRecords(["wrong"] * 3, decoded.schema + " ", decoded.content, decoded.starts)
    assert _values(decode_manifest_list(table.io, path, other).records) == _values(decoded.records)


def test_list_queries_are_correct_after_random_changes(table: Table) -> None:
    rng = random.Random(6)
    clear_file_caches()
    available = [manifest_of(table, 7, data_files(table, number)) for number in range(6)]
    for number, manifest in enumerate(available):
        manifest[3], manifest[4], manifest[5] = (
            rng.choice([*ManifestContent, ManifestContent.DATA]),
            number,
            number,
        )
    listed: list[ManifestFile] = []
    for number in range(60):
        kept = listed[rng.randrange(3) :]
        listed = rng.choice([[*rng.choices(available, k=rng.randrange(3)), *kept], kept[:-1]])
        loaded = load_manifest_list(table.io, _snapshot(_write(table, str(number), listed)))
        assert loaded.sequence_numbers.tolist() == [manifest.sequence_number for manifest in loaded.manifests]
        assert loaded.has_deletes == any(manifest.content is ManifestContent.DELETES for manifest in listed)
        for minimum in range(7):
            expected = [
                manifest for manifest in loaded.manifests if (manifest.sequence_number or 0) >= minimum
            ]
            assert loaded.written_since(minimum) == expected


def test_list_is_compared_with_the_newest_list_of_its_table(table: Table, three: list[ManifestFile]) -> None:
    clear_file_caches()
    paths = [_write(table, "a", three[1:]), _write(table, "b", three)]
    first, second = (load_manifests(table.io, _snapshot(path)) for path in paths)
    assert all(manifest is known for manifest, known in zip(second[1:], first, strict=True))
    assert load_manifests(table.io, _snapshot(paths[1])) is second
    assert manifests._newest_by_folder.find(paths[0].rpartition("/")[0]) is not None


def _snapshot(manifest_list: str) -> Snapshot:
    return Snapshot(
        **{"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": manifest_list}  # type: ignore[arg-type]
    )
