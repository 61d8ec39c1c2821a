"""Manifests and manifest lists have no checksums: detectable damage is an error, and no file is read in part."""

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
from tests.lab.samples import SCHEMA, UnsteadyCatalog, data_files, manifest_of
from tests.manifests import list_manifests


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


def _as_listed(table: Table, count: int) -> tuple[ManifestFile, Path, Path]:
    """A manifest with this many files; its path, and the path of its list."""
    written = manifest_of(table, 7, [data_files(table, number)[0] for number in range(count)])
    path = f"{table.location()}/metadata/list.avro"
    write_manifest_list(NewManifestList(table.io.new_output(path), 7, None, 3, "deflate"), [written])
    (manifest,) = list_manifests(table.io, path)
    places = [Path(one.removeprefix("file://")) for one in (manifest.manifest_path, path)]
    return manifest, places[0], places[1]


def test_a_manifest_that_was_cut_is_corrupt_wherever_that_is(table: Table) -> None:
    """PyIceberg reads it as a manifest with fewer files: rows would be lost silently."""
    manifest, path, _ = _as_listed(table, 3)
    content = path.read_bytes()
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(Corrupt):
            read_manifest_entries(table.io, manifest)
    path.write_bytes(content)
    assert len(read_manifest_entries(table.io, manifest)) == 3


def test_a_manifest_list_that_was_cut_is_corrupt_wherever_that_is(table: Table) -> None:
    _, _, path = _as_listed(table, 1)
    content = path.read_bytes()
    header = content.rindex(content[-16:], 0, len(content) - 16) + 16  # without a block it is an empty list
    for end in {*range(0, len(content), 7), len(content) - 16} - {header}:
        path.write_bytes(content[:end])
        with pytest.raises(Corrupt):
            list_manifests(table.io, str(path))


@pytest.mark.parametrize("count", [1, 3])
def test_a_manifest_with_other_than_the_files_that_its_list_says_is_corrupt(table: Table, count: int) -> None:
    manifest, path, _ = _as_listed(table, 2)
    other = manifest_of(table, 7, [data_files(table, number)[0] for number in range(count)])
    path.write_bytes(Path(other.manifest_path.removeprefix("file://")).read_bytes())
    with pytest.raises(Corrupt, match=f"has {count} live files, but the manifest list states 2"):
        read_manifest_entries(table.io, manifest)


def test_damage_anywhere_in_a_manifest_is_corrupt_or_another_manifest(table: Table) -> None:
    manifest, path, _ = _as_listed(table, 2)
    content, dice = path.read_bytes(), random.Random(3)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        path.write_bytes(damaged)
        with suppress(Corrupt):
            read_manifest_entries(table.io, manifest)


def test_storage_that_gives_half_a_manifest_is_no_damage(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, path, _ = _as_listed(table, 1)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    monkeypatch.setattr(PyArrowFile, "__len__", lambda _file: size)
    with pytest.raises(Transient, match=f"{size // 2} of {size} bytes"):
        read_manifest_entries(table.io, manifest)


def test_noise_in_a_block_is_never_read_beyond_its_end(table: Table) -> None:
    """A length beyond the end made PyIceberg's Cython decoder crash the process."""
    _, _, path = _as_listed(table, 1)
    (manifest,) = list_manifests(table.io, str(path))
    write_manifest_list(NewManifestList(table.io.new_output(str(path)), 7, None, 3, "null"), [manifest] * 3)
    content = path.read_bytes()
    begin = content.index(content[-16:]) + 16  # behind the header
    dice = random.Random(4)
    refused = 0
    for _ in range(300):
        at, length = dice.randrange(begin, len(content) - 16), dice.randint(1, 64)
        path.write_bytes((content[:at] + dice.randbytes(length) + content[at + length :])[: len(content)])
        try:
            list_manifests(table.io, str(path))
        except Corrupt:
            refused += 1
    assert refused > 200


def test_more_records_than_a_file_says_are_not_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes may decompress to a huge block."""
    _, _, path = _as_listed(table, 1)
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
