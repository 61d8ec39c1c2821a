"""Byte ranges of a file, read sequentially or in parallel."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Corrupt
from spark_job.index import byte_ranges
from spark_job.index.byte_ranges import open_ranges
from spark_job.storage.parallel import is_remote

CONTENT = bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/b", False), ("file:///a", False), ("file:/a", False), ("s3://b/k", True), ("gs://b/k", True)],
)
def test_path_with_a_scheme_other_than_file_is_remote(path: str, expected: bool) -> None:
    assert is_remote(path) is expected


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("io", [PyArrowFileIO(), FsspecFileIO({})], ids=["arrow", "fsspec"])
def test_ranges_are_read_in_the_requested_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, io: FileIO, remote: bool
) -> None:
    monkeypatch.setattr(byte_ranges, "is_remote", lambda path: remote)
    file = tmp_path / "f"
    file.write_bytes(CONTENT)
    requested = [(number * 97 % 10_000, number % 7 + 1) for number in range(200)]
    with open_ranges(io, str(file)) as source:
        assert source.read(requested) == [CONTENT[offset : offset + length] for offset, length in requested]
        assert source.read([]) == []
        with pytest.raises(Corrupt, match="ends before byte 10300"):
            source.read([(0, 5), (10_200, 100)])
