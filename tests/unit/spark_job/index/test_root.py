from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.puffin import PuffinFile

from icemirror.errors import Corrupt
from spark_job.index.puffin import Blob, write_puffin
from spark_job.index.root import BLOB_TYPE, IndexedFile, Root, read_root, write_root
from tests.unit.spark_job.index.samples import ORDERED_64, ORDERED_128, flip, row_entries, store


@pytest.fixture
def root(tmp_path: Path, io: PyArrowFileIO) -> Root:
    narrow = store(io, tmp_path, row_entries(range(2000), [0] * 2000, range(2000)), ORDERED_64)
    wide = store(io, tmp_path, row_entries([2**128 - 1], [-1], [0], ORDERED_128), ORDERED_128)
    files = (
        IndexedFile(path="s3://b/a é.parquet", rows=7, live_rows=5),
        IndexedFile(path="b", rows=2**40, live_rows=2**40),
    )
    return Root(snapshot_id=2**63 - 1, epoch=3, segments=(narrow, wide), files=files)


def write_payload(io: PyArrowFileIO, path: Path, payload: bytes, crc: str | None = None) -> str:
    checksum = str(zlib.crc32(payload)) if crc is None else crc
    write_puffin(io, str(path), [Blob(BLOB_TYPE, payload, {"crc32": checksum})])
    return str(path)


def test_root_is_equal_after_a_round_trip(tmp_path: Path, io: PyArrowFileIO, root: Root) -> None:
    path = tmp_path / "r.puffin"
    assert write_root(io, str(path), root) == path.stat().st_size
    assert read_root(io, str(path)) == root


def test_root_is_one_json_blob_with_a_version(tmp_path: Path, io: PyArrowFileIO, root: Root) -> None:
    path = tmp_path / "r.puffin"
    write_root(io, str(path), root)
    puffin = PuffinFile(path.read_bytes())
    (entry,) = puffin.footer.blobs
    document = json.loads(puffin.get_blob_payload(entry))
    assert entry.type == "icemirror-index-root-v1"
    assert list(document) == [
        "version",
        "snapshot_id",
        "epoch",
        "segments",
        "files",
        "next_run",
        "merging",
        "expired",
    ]
    assert document["version"] == 1
    assert [segment["last_key"] for segment in document["segments"]] == [1999, 2**128 - 1]
    assert document["files"][0] == {"path": "s3://b/a é.parquet", "rows": 7, "live": 5, "gone": False}


def test_root_sums_its_files_and_segments(root: Root) -> None:
    assert root.live_rows == 2**40 + 5
    assert root.bytes == sum(Path(segment.path).stat().st_size for segment in root.segments)


def test_empty_root_is_valid(tmp_path: Path, io: PyArrowFileIO) -> None:
    empty = Root(snapshot_id=1, epoch=1, segments=(), files=())
    path = str(tmp_path / "r.puffin")
    write_root(io, path, empty)
    assert read_root(io, path) == empty
    assert (empty.live_rows, empty.bytes) == (0, 0)


def test_flipped_bit_is_corrupt_or_changes_nothing(tmp_path: Path, io: PyArrowFileIO, root: Root) -> None:
    path = tmp_path / "r.puffin"
    write_root(io, str(path), root)
    content = path.read_bytes()
    for offset in range(0, len(content), 3):
        path.write_bytes(flip(content, offset, offset % 8))
        try:
            assert read_root(io, str(path)) == root
        except Corrupt:
            continue


def test_root_truncated_at_any_byte_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = tmp_path / "r.puffin"
    write_root(io, str(path), Root(snapshot_id=1, epoch=1, segments=(), files=()))
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(Corrupt):
            read_root(io, str(path))


@pytest.mark.parametrize("count", [0, 2])
def test_file_with_another_number_of_roots_is_corrupt(tmp_path: Path, io: PyArrowFileIO, count: int) -> None:
    path = str(tmp_path / "r.puffin")
    write_puffin(io, path, [Blob("other", b"x"), *[Blob(BLOB_TYPE, b"{}")] * count])
    with pytest.raises(Corrupt, match=f"found {count}"):
        read_root(io, path)


@pytest.mark.parametrize("crc", ["", "0", "-1", "x"])
def test_root_with_a_wrong_checksum_is_corrupt(
    tmp_path: Path, io: PyArrowFileIO, root: Root, crc: str
) -> None:
    path = write_payload(io, tmp_path / "r.puffin", root.model_dump_json(by_alias=True).encode(), crc)
    with pytest.raises(Corrupt, match="checksum"):
        read_root(io, path)


def test_root_without_a_checksum_is_corrupt(tmp_path: Path, io: PyArrowFileIO, root: Root) -> None:
    path = str(tmp_path / "r.puffin")
    write_puffin(io, path, [Blob(BLOB_TYPE, root.model_dump_json(by_alias=True).encode())])
    with pytest.raises(Corrupt, match="checksum"):
        read_root(io, path)


@pytest.mark.parametrize(
    "changes",
    [{"version": 2}, {"surprise": 1}, {"segments": None}, {"files": [{"path": "x"}]}, {"epoch": "many"}],
    ids=str,
)
def test_root_with_other_fields_is_corrupt(
    tmp_path: Path, io: PyArrowFileIO, root: Root, changes: dict[str, Any]
) -> None:
    payload = json.dumps({**root.model_dump(mode="json", by_alias=True), **changes}).encode()
    with pytest.raises(Corrupt, match="cannot be parsed"):
        read_root(io, write_payload(io, tmp_path / "r.puffin", payload))


@pytest.mark.parametrize("payload", [b"", b"null", b"[]", b"\xff", b"[" * 100_000], ids=repr)
def test_root_that_is_not_a_json_object_is_corrupt(tmp_path: Path, io: PyArrowFileIO, payload: bytes) -> None:
    with pytest.raises(Corrupt, match="cannot be parsed"):
        read_root(io, write_payload(io, tmp_path / "r.puffin", payload))
