"""Manifests and manifest lists are read and written like PyIceberg's; damage is a specific error."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntryStatus,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.typedef import Record

from icemirror.errors import Corrupt
from spark_job.pyiceberg_private.avro import _Encoder
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    read_manifest_entries,
    write_added_manifest,
    write_merged_manifest,
)
from tests.unit.spark_job.pyiceberg_private.manifest_samples import (
    _UUID,
    IO,
    PARTITIONS,
    SCHEMA,
    data_file,
    fields_of,
    new_manifest,
)

CODECS = ["null", "deflate", "gzip", "zstandard", "bzip2"]


def partitions() -> list[Record]:
    return [Record(*(value for _, value in PARTITIONS)), Record(*(None for _ in PARTITIONS))]


@pytest.mark.parametrize("codec", CODECS)
def test_pyiceberg_reads_the_written_manifests(tmp_path: Path, codec: str) -> None:
    files = [data_file(number, record) for number, record in enumerate(partitions())]
    manifest = write_added_manifest(new_manifest(tmp_path, codec), files)
    expected = manifest.fetch_manifest_entry(IO)
    double = [str(kind) for kind, _ in PARTITIONS].index("double")
    assert expected[0].data_file.partition[double] != PARTITIONS[double][1], "fixed in PyIceberg"
    expected[0].data_file.partition[double] = PARTITIONS[double][1]
    assert [fields_of(entry.data_file) for entry in expected] == [fields_of(file) for file in files]
    actual = read_manifest_entries(IO, manifest)
    assert [fields_of(entry.data_file)[:16] for entry in actual] == [fields_of(file) for file in files]
    assert [entry._data[:4] for entry in actual] == [entry._data[:4] for entry in expected]
    assert all(entry.status is ManifestEntryStatus.ADDED for entry in actual)


@pytest.mark.parametrize("version", [2, 3])
def test_every_field_is_kept_in_a_manifest(tmp_path: Path, version: int) -> None:
    files = [data_file(number, record, version) for number, record in enumerate(partitions())]
    manifest = write_added_manifest(new_manifest(tmp_path, "deflate", version), files)
    read = [fields_of(entry.data_file) for entry in read_manifest_entries(IO, manifest)]
    assert read == [[*fields_of(file), *[None] * (20 - len(file))] for file in files]


def test_manifest_length_is_the_file_size(tmp_path: Path) -> None:
    manifest = write_added_manifest(new_manifest(tmp_path, "deflate"), [data_file(1, partitions()[0])])
    assert manifest.manifest_length == (tmp_path / "m.avro").stat().st_size


def test_manifest_that_cannot_be_written_is_not_stored(tmp_path: Path) -> None:
    good, bad = data_file(1, partitions()[0]), data_file(2, partitions()[0])
    bad._data[4] = "not a number"
    with pytest.raises(TypeError):
        write_added_manifest(new_manifest(tmp_path, "deflate"), [good, bad])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Obj\x01", b"Obj\x02"),
        (b"avro.schema", b"avro.schemX"),
        (b'"field-id": 0,', b'"field-id": 9,'),
        (b"deflate", b"inflate"),
    ],
)
def test_invalid_header_is_corrupt(tmp_path: Path, old: bytes, new: bytes) -> None:
    manifest = write_added_manifest(new_manifest(tmp_path, "deflate"), [data_file(1, partitions()[0])])
    path = tmp_path / "m.avro"
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(Corrupt, match="cannot be parsed"):
        read_manifest_entries(IO, manifest)


@pytest.mark.parametrize("offset", [-1, -16])
def test_block_without_its_sync_marker_is_corrupt(tmp_path: Path, offset: int) -> None:
    manifest = write_added_manifest(new_manifest(tmp_path, "deflate"), [data_file(1, partitions()[0])])
    path = tmp_path / "m.avro"
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="does not end with the sync marker"):
        read_manifest_entries(IO, manifest)


def test_deleted_entries_are_returned_on_request(tmp_path: Path) -> None:
    files = [data_file(number, Record()) for number in range(3)]
    first = write_added_manifest(new_manifest(tmp_path, "deflate", spec=PartitionSpec()), files)
    first.sequence_number = 4
    output = IO.new_output(f"file://{tmp_path}/second.avro")
    merged = NewManifest(ManifestContent.DATA, PartitionSpec(), SCHEMA, output, 8, "deflate")
    second = write_merged_manifest(merged, IO, [first], {("file:///d/1.parquet", None)})
    assert [entry.data_file.record_count for entry in read_manifest_entries(IO, second)] == [0, 2]
    entries = read_manifest_entries(IO, second, deleted=True)
    assert [entry.status.name for entry in entries] == ["EXISTING", "DELETED", "EXISTING"]


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300), st.booleans(), st.text())
def test_values_are_encoded_like_pyiceberg(number: int, data: bytes, flag: bool, text: str) -> None:
    stream = io.BytesIO()
    expected, actual = BinaryEncoder(stream), _Encoder()
    for encoder in (expected, actual):
        encoder.write_int(number)
        encoder.write_bytes(data)
        encoder.write_boolean(flag)
        encoder.write_utf8(text)
        encoder.write_uuid(_UUID)
        encoder.write_double(1.5)
        encoder.write_float(1.5)
    assert bytes(actual.data) == stream.getvalue()
