from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.puffin import PuffinFile

from icemirror import __version__
from icemirror.errors import Corrupt
from spark_job.index.puffin import Blob, Span, read_blobs, read_span, write_puffin

MAGIC = b"PFA1"
BLOBS = (Blob("one", b"first payload", {"a": "b"}), Blob("two", b""), Blob("three", bytes(range(40))))


@pytest.fixture
def written(tmp_path: Path, io: PyArrowFileIO) -> Path:
    path = tmp_path / "written.puffin"
    write_puffin(io, str(path), BLOBS)
    return path


def forge(footer: Any, body: bytes = b"0123456789") -> bytes:
    """Return a file with this footer: objects are written as JSON, bytes unchanged."""
    payload = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    return MAGIC + body + MAGIC + payload + struct.pack("<i", len(payload)) + b"\0\0\0\0" + MAGIC


def blob(**changes: Any) -> dict[str, Any]:
    """Return the footer entry of a valid blob, with these changes."""
    valid = {"type": "x", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": 10}
    return {**valid, **changes}


def test_blobs_are_read_as_written(written: Path, io: PyArrowFileIO) -> None:
    found = read_blobs(io, str(written))
    expected = [("one", {"a": "b"}), ("two", {}), ("three", {})]
    assert [(entry.type, entry.properties) for entry in found] == expected
    payloads = [read_span(io, str(written), entry.span, 1000) for entry in found]
    assert payloads == [blob.payload for blob in BLOBS]


def test_writer_returns_the_file_size_and_the_spans_of_the_blobs(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = tmp_path / "x.puffin"
    size, spans = write_puffin(io, str(path), BLOBS)
    assert size == path.stat().st_size
    assert spans == [Span(offset=4, length=13), Span(offset=17, length=0), Span(offset=17, length=40)]


def test_pyiceberg_reads_the_same_footer_and_payloads(written: Path) -> None:
    puffin = PuffinFile(written.read_bytes())
    payloads = [puffin.get_blob_payload(entry) for entry in puffin.footer.blobs]
    assert payloads == [blob.payload for blob in BLOBS]
    assert [entry.type for entry in puffin.footer.blobs] == ["one", "two", "three"]
    assert puffin.footer.properties == {"created-by": f"icemirror {__version__}"}
    for entry in puffin.footer.blobs:
        assert (entry.snapshot_id, entry.sequence_number, entry.fields) == (-1, -1, [])


def test_bytes_follow_the_specification(written: Path) -> None:
    content = written.read_bytes()
    (length,) = struct.unpack("<i", content[-12:-8])
    footer = json.loads(content[-12 - length : -12])
    assert content[:4] == content[-4:] == content[-16 - length : -12 - length] == MAGIC
    assert content[-8:-4] == b"\0\0\0\0"
    assert len(footer["blobs"]) == 3


def test_file_without_blobs_is_valid(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = str(tmp_path / "none.puffin")
    write_puffin(io, path, [])
    assert read_blobs(io, path) == []


def test_file_truncated_at_any_byte_is_corrupt(written: Path, io: PyArrowFileIO) -> None:
    content = written.read_bytes()
    for end in range(len(content)):
        written.write_bytes(content[:end])
        with pytest.raises(Corrupt):
            read_blobs(io, str(written))


def test_file_without_its_beginning_is_corrupt(written: Path, io: PyArrowFileIO) -> None:
    content = written.read_bytes()
    for start in (1, 4, 17, 50):
        written.write_bytes(content[start:])
        with pytest.raises(Corrupt):
            read_blobs(io, str(written))


def test_wrong_byte_in_a_magic_or_in_the_flags_is_corrupt(written: Path, io: PyArrowFileIO) -> None:
    content = written.read_bytes()
    (length,) = struct.unpack("<i", content[-12:-8])
    middle = len(content) - 16 - length
    for offset in (*range(4), *range(middle, middle + 4), *range(len(content) - 8, len(content))):
        damaged = bytearray(content)
        damaged[offset] ^= 1
        written.write_bytes(damaged)
        with pytest.raises(Corrupt):
            read_blobs(io, str(written))


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 2**31 - 1, 2**24 + 1, 5000])
def test_wrong_footer_length_is_corrupt(written: Path, io: PyArrowFileIO, length: int) -> None:
    content = written.read_bytes()
    written.write_bytes(content[:-12] + struct.pack("<i", length) + content[-8:])
    with pytest.raises(Corrupt):
        read_blobs(io, str(written))


HOSTILE: dict[str, Any] = {
    "not JSON": b"not JSON at all",
    "not UTF-8": b'{"blobs": "\xff\xfe"}',
    "a list": [],
    "a number": 7,
    "no blobs": {"properties": {}},
    "blobs are null": {"blobs": None},
    "blobs are a number": {"blobs": 3},
    "blobs are text": {"blobs": "one"},
    "blobs are an object": {"blobs": {"one": 1}},
    "a blob is null": {"blobs": [None]},
    "no offset": {"blobs": [{"type": "x", "length": 1}]},
    "the type is a number": {"blobs": [blob(type=5)]},
    "a blob in the first magic": {"blobs": [blob(offset=3)]},
    "a negative offset": {"blobs": [blob(offset=-4)]},
    "a negative length": {"blobs": [blob(length=-1)]},
    "a blob that reaches into the footer": {"blobs": [blob(length=11)]},
    "a blob beyond the file": {"blobs": [blob(offset=10**6)]},
    "a blob of 2^62 bytes": {"blobs": [blob(length=2**62)]},
    "an offset of 400 digits": {"blobs": [blob(offset=10**400)]},
    "a fractional offset": {"blobs": [blob(offset=4.5)]},
    "an infinite offset": b'{"blobs": [{"type": "x", "offset": Infinity, "length": 1}]}',
    "an integer of 10,000 digits": b'{"blobs": [{"type": "x", "length": 1, "offset": '
    + b"9" * 10_000
    + b"}]}",
    "properties that are not text": {"blobs": [blob(properties={"a": [1]})]},
    "properties that are null": {"blobs": [blob(properties=None)]},
    "20,000 blobs": {"blobs": [blob()] * 20_000},
    "lists 100,000 deep": b'{"blobs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "objects 100,000 deep": b'{"blobs": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_footer_is_corrupt(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    path = tmp_path / "hostile.puffin"
    path.write_bytes(forge(HOSTILE[name]))
    with pytest.raises(Corrupt, match=r"hostile\.puffin"):
        read_blobs(io, str(path))


def test_forged_file_with_a_valid_footer_is_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = tmp_path / "good.puffin"
    path.write_bytes(forge({"blobs": [blob()]}))
    assert [entry.span for entry in read_blobs(io, str(path))] == [Span(offset=4, length=10)]


def test_overlapping_blobs_are_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    """No writer produces them; 10,000 of them would let a small file claim a large size."""
    path = tmp_path / "overlap.puffin"
    path.write_bytes(forge({"blobs": [blob(length=8), blob(offset=8, length=6)]}))
    with pytest.raises(Corrupt):
        read_blobs(io, str(path))


def test_footer_of_more_than_16_mib_is_not_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = tmp_path / "large.puffin"
    payload = b" " * ((16 << 20) + 1)
    path.write_bytes(MAGIC + MAGIC + payload + struct.pack("<i", len(payload)) + b"\0\0\0\0" + MAGIC)
    with pytest.raises(Corrupt):
        _check_peak_memory(4 << 20, lambda: read_blobs(io, str(path)))


def test_span_longer_than_the_limit_is_not_read(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"x" * 100)
    with pytest.raises(Corrupt, match="at most 50"):
        read_span(io, str(path), Span(offset=0, length=51), 50)


def test_span_beyond_the_file_allocates_no_memory(tmp_path: Path, io: PyArrowFileIO) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"x" * 100)
    with pytest.raises(Corrupt, match="ends before"):
        _check_peak_memory(4 << 20, lambda: read_span(io, str(path), Span(offset=90, length=20), 1 << 40))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_file_is_corrupt_or_its_blobs_are_within_the_file(
    written: Path, io: PyArrowFileIO, changes: list[tuple[int, int]]
) -> None:
    path = written.with_name("damaged.puffin")
    content = bytearray(written.read_bytes())
    for offset, value in changes:
        content[offset % len(content)] = value
    path.write_bytes(content)
    try:
        found = read_blobs(io, str(path))
    except Corrupt:
        return
    assert all(4 <= entry.offset <= entry.offset + entry.length <= len(content) for entry in found)


def _check_peak_memory(limit: int, act: Callable[[], object]) -> None:
    """Call `act` and check that Python allocated less memory than `limit`."""
    tracemalloc.start()
    try:
        act()
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < limit
