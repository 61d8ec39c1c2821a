"""Manifests and manifest lists have no checksums: detectable damage is an error, and partial reads are refused."""

from __future__ import annotations

import random
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from icemirror.errors import Corrupt, Transient
from spark_job.pyiceberg_private import avro
from spark_job.pyiceberg_private.avro import _Encoder
from spark_job.pyiceberg_private.manifest_files import (
    NewManifestList,
    read_manifest_entries,
    write_manifest_list,
)
from tests.lab.manifests import list_manifests
from tests.lab.samples import SCHEMA, UnsteadyCatalog, data_files, manifest_of


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


def _write_listed_manifest(table: Table, count: int) -> tuple[ManifestFile, Path, Path]:
    """Write a manifest with `count` files and its list. Return the manifest, its path and the path of the list."""
    written = manifest_of(table, 7, [data_files(table, number)[0] for number in range(count)])
    path = f"{table.location()}/metadata/list.avro"
    write_manifest_list(NewManifestList(table.io.new_output(path), 7, None, 3, "deflate"), [written])
    (manifest,) = list_manifests(table.io, path)
    paths = [Path(location.removeprefix("file://")) for location in (manifest.manifest_path, path)]
    return manifest, paths[0], paths[1]


def test_manifest_truncated_at_any_byte_is_corrupt(table: Table) -> None:
    """PyIceberg reads it as a manifest with fewer files, and silently loses rows."""
    manifest, path, _ = _write_listed_manifest(table, 3)
    content = path.read_bytes()
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(Corrupt):
            read_manifest_entries(table.io, manifest)
    path.write_bytes(content)
    assert len(read_manifest_entries(table.io, manifest)) == 3


def test_manifest_list_truncated_at_any_byte_is_corrupt(table: Table) -> None:
    _, _, path = _write_listed_manifest(table, 1)
    content = path.read_bytes()
    header = (
        content.rindex(content[-16:], 0, len(content) - 16) + 16
    )  # a header without blocks is a valid empty list
    for end in {*range(0, len(content), 7), len(content) - 16} - {header}:
        path.write_bytes(content[:end])
        with pytest.raises(Corrupt):
            list_manifests(table.io, str(path))


@pytest.mark.parametrize("count", [1, 3])
def test_manifest_with_another_file_count_than_its_list_entry_is_corrupt(table: Table, count: int) -> None:
    manifest, path, _ = _write_listed_manifest(table, 2)
    replacement = manifest_of(table, 7, [data_files(table, number)[0] for number in range(count)])
    path.write_bytes(Path(replacement.manifest_path.removeprefix("file://")).read_bytes())
    with pytest.raises(Corrupt, match=f"has {count} live files, but the manifest list states 2"):
        read_manifest_entries(table.io, manifest)


def test_damaged_manifest_raises_no_error_except_corrupt(table: Table) -> None:
    manifest, path, _ = _write_listed_manifest(table, 2)
    content, rng = path.read_bytes(), random.Random(3)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        with suppress(Corrupt):
            read_manifest_entries(table.io, manifest)


def test_partial_read_of_a_manifest_is_transient(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, path, _ = _write_listed_manifest(table, 1)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    monkeypatch.setattr(PyArrowFile, "__len__", lambda _file: size)
    with pytest.raises(Transient, match=f"{size // 2} of {size} bytes"):
        read_manifest_entries(table.io, manifest)


def test_random_bytes_in_a_block_are_not_read_beyond_its_end(table: Table) -> None:
    """A length beyond the end made PyIceberg's Cython decoder crash the process."""
    _, _, path = _write_listed_manifest(table, 1)
    (manifest,) = list_manifests(table.io, str(path))
    write_manifest_list(NewManifestList(table.io.new_output(str(path)), 7, None, 3, "null"), [manifest] * 3)
    content = path.read_bytes()
    begin = content.index(content[-16:]) + 16  # the end of the header
    rng = random.Random(4)
    refused = 0
    for _ in range(300):
        at, length = rng.randrange(begin, len(content) - 16), rng.randint(1, 64)
        path.write_bytes((content[:at] + rng.randbytes(length) + content[at + length :])[: len(content)])
        try:
            list_manifests(table.io, str(path))
        except Corrupt:
            refused += 1
    assert refused > 200


def test_oversized_blocks_are_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes may decompress to a huge block."""
    _, _, path = _write_listed_manifest(table, 1)
    record, zeros = zlib.compressobj(wbits=-15), bytes(1 << 20)
    packed = record.compress(zeros) + record.flush()
    content = path.read_bytes()
    sync = content[-16:]
    header = content[: content.index(sync) + 16]
    block = _Encoder()
    block.write_int(1)
    block.write_bytes(packed)
    path.write_bytes(header + bytes(block.data) + sync)
    with pytest.raises(Corrupt, match="number or the length of the records"):
        list_manifests(table.io, str(path))
    monkeypatch.setattr(avro, "_MAX_BLOCK_BYTES", 1 << 10)
    with pytest.raises(Corrupt, match="longer than 1024 bytes"):
        list_manifests(table.io, str(path))
