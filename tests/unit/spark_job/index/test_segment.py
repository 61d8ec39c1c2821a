from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Invalid
from spark_job.index.key_codec import KeyCodec
from spark_job.index.puffin import read_blobs, read_span
from spark_job.index.segment import (
    BLOB_TYPE,
    BLOCK_ROWS,
    DIRECTORY_TYPE,
    Layout,
    SegmentInfo,
    payload_columns,
)
from tests.unit.spark_job.index.samples import (
    CODECS,
    HASHED,
    ORDERED_64,
    ORDERED_128,
    SIZES,
    make_entries,
    plain,
    random_numbers,
    row_entries,
    store,
)

HALF = 2**64


def payload(io: PyArrowFileIO, segment: SegmentInfo, folder: Path) -> Path:
    """Write the payload blob to a separate file."""
    path = folder / "payload.parquet"
    path.write_bytes(read_span(io, segment.path, segment.payload, 1 << 30))
    return path


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", SIZES)
def test_parquet_reader_and_computed_offsets_give_the_same_values(
    tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec, size: int
) -> None:
    random = np.random.default_rng(size)
    segment = store(io, tmp_path, make_entries(codec, random_numbers(codec, size, random), random), codec)
    path = payload(io, segment, tmp_path)
    table, content, shape = pq.read_table(path), path.read_bytes(), segment.geometry
    assert table.num_rows == shape.rows
    stored = payload_columns(codec.encoding, codec.hash_bits, segment.layout)
    assert table.schema.names == [name for name, _ in stored]
    for column, (name, dtype) in enumerate(stored):
        pieces = []
        for block in range(shape.blocks):
            if block < shape.full_blocks:
                start, rows = shape.base + block * shape.stride + shape.columns[column], BLOCK_ROWS
            else:
                start, rows = shape.tail + shape.tail_columns[column], shape.rows % BLOCK_ROWS
            pieces.append(np.frombuffer(content, dtype, rows, start))
        assert np.concatenate(pieces).tolist() == table[name].to_pylist()


@pytest.mark.parametrize(
    ("rows", "full", "tail"), [(1, 0, 1), (255, 0, 255), (256, 1, 0), (257, 1, 1), (512, 2, 0)]
)
def test_only_the_last_block_has_another_layout(
    tmp_path: Path, io: PyArrowFileIO, rows: int, full: int, tail: int
) -> None:
    numbers = list(range(0, 2 * rows, 2))  # no consecutive keys, so that a row is an entry
    shape = store(io, tmp_path, row_entries(numbers, [0] * rows, range(rows)), ORDERED_64).geometry
    assert (shape.rows, shape.full_blocks, shape.blocks) == (rows, full, full + bool(tail))
    assert bool(shape.stride) == bool(shape.columns) == bool(full)
    assert bool(shape.tail_length) == bool(shape.tail_columns) == bool(tail)


def test_payload_is_plain_uncompressed_and_split_into_blocks(tmp_path: Path, io: PyArrowFileIO) -> None:
    random = np.random.default_rng(1)
    entries = make_entries(HASHED, random_numbers(HASHED, 2500, random), random)
    footer = pq.read_metadata(payload(io, store(io, tmp_path, entries, HASHED), tmp_path))
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [256] * 9 + [196]
    for group in groups:
        for number in range(group.num_columns):
            chunk = group.column(number)
            assert chunk.compression == "UNCOMPRESSED"
            assert "PLAIN" in chunk.encodings
            assert not any("DICTIONARY" in encoding for encoding in chunk.encodings)
            assert not chunk.is_stats_set
    assert not any(field.nullable for field in footer.schema.to_arrow_schema())


@pytest.mark.parametrize(
    ("codec", "widths"),
    [
        (ORDERED_64, {Layout.ENTRIES: 16, Layout.RUNS: 20}),
        (ORDERED_128, {Layout.ENTRIES: 24, Layout.RUNS: 28}),
        (HASHED, {Layout.ENTRIES: 20}),
        (KeyCodec(HASHED.encoding, 128), {Layout.ENTRIES: 24}),
    ],
)
def test_payload_row_has_the_documented_width(codec: KeyCodec, widths: dict[Layout, int]) -> None:
    for layout, width in widths.items():
        columns = payload_columns(codec.encoding, codec.hash_bits, layout)
        assert sum(dtype.itemsize for _, dtype in columns) == width


def runs(tmp_path: Path, io: PyArrowFileIO, entries: object, codec: KeyCodec = ORDERED_64) -> list[list[int]]:
    """Return the payload rows (low half, length, file, position) of entries that form runs."""
    segment = store(io, tmp_path, entries, codec)  # type: ignore[arg-type]
    assert segment.layout is Layout.RUNS
    table: pa.Table = pq.read_table(payload(io, segment, tmp_path))
    columns = [table[name].to_pylist() for name in ("key_lo", "length", "file", "pos")]
    return [list(row) for row in zip(*columns, strict=True)]


def test_consecutive_keys_at_consecutive_positions_are_one_run(tmp_path: Path, io: PyArrowFileIO) -> None:
    found = runs(tmp_path, io, row_entries(range(100, 5100), [2] * 5000, range(7, 5007)))
    assert found == [[100, 5000, 2, 7]]


def test_other_file_starts_a_new_run(tmp_path: Path, io: PyArrowFileIO) -> None:
    found = runs(tmp_path, io, row_entries(range(10), [0] * 5 + [1] * 5, range(10)))
    assert found == [[0, 5, 0, 0], [5, 5, 1, 5]]


@pytest.mark.parametrize("jump", [0, 2, -3])
def test_jump_in_position_starts_a_new_run(tmp_path: Path, io: PyArrowFileIO, jump: int) -> None:
    positions = [*range(10, 15), *range(14 + jump, 19 + jump)]
    found = runs(tmp_path, io, row_entries(range(10), [0] * 10, positions))
    assert found == [[0, 5, 0, 10], [5, 5, 0, 14 + jump]]


def test_gap_between_keys_starts_a_new_run(tmp_path: Path, io: PyArrowFileIO) -> None:
    found = runs(tmp_path, io, row_entries([*range(5), *range(6, 11)], [0] * 10, range(10)))
    assert found == [[0, 5, 0, 0], [6, 5, 0, 5]]


def test_tombstones_are_a_separate_run(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = [0] * 4 + [-1] * 4 + [0] * 4
    position = [0, 1, 2, 3, 0, 0, 0, 0, 8, 9, 10, 11]
    assert runs(tmp_path, io, row_entries(range(12), file, position)) == [
        [0, 4, 0, 0],
        [4, 4, -1, 0],
        [8, 4, 0, 8],
    ]


def test_runs_of_sequential_uuids_end_with_their_high_half(tmp_path: Path, io: PyArrowFileIO) -> None:
    numbers = range(5 * HALF - 4, 5 * HALF + 4)
    found = runs(tmp_path, io, row_entries(numbers, [0] * 8, range(8), ORDERED_128), ORDERED_128)
    assert found == [[HALF - 4, 4, 0, 0], [0, 4, 0, 4]]


def test_smaller_layout_is_chosen(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Five entries of 16 bytes are as large as four runs of 20: then entries are chosen."""
    equal = row_entries([0, 1, 10, 20, 30], [0] * 5, range(5))
    assert store(io, tmp_path, equal, ORDERED_64).layout is Layout.ENTRIES
    smaller = row_entries([0, 1, 2, 10, 20], [0] * 5, range(5))
    assert store(io, tmp_path, smaller, ORDERED_64).layout is Layout.RUNS


def test_hashed_keys_are_never_stored_as_runs(tmp_path: Path, io: PyArrowFileIO) -> None:
    entries = row_entries(range(100), [0] * 100, range(100), HASHED)
    assert store(io, tmp_path, entries, HASHED).layout is Layout.ENTRIES


def test_sequential_keys_take_one_row_per_file(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = np.repeat(np.arange(20), 10_000)
    entries = row_entries(range(200_000), file.tolist(), [*range(10_000)] * 20)
    assert store(io, tmp_path, entries, ORDERED_64).geometry.rows == 20


def test_greatest_position_is_stored_and_a_greater_one_is_refused(tmp_path: Path, io: PyArrowFileIO) -> None:
    top = 2**32 - 1
    segment = store(io, tmp_path, row_entries([5], [0], [top]), ORDERED_64)
    assert pq.read_table(payload(io, segment, tmp_path))["pos"].to_pylist() == [top]
    with pytest.raises(Invalid, match=r"write\.target-file-size-bytes"):
        store(io, tmp_path, row_entries([5], [0], [top + 1]), ORDERED_64)


@pytest.mark.parametrize("codec", CODECS)
def test_segment_info_describes_the_segment(tmp_path: Path, io: PyArrowFileIO, codec: KeyCodec) -> None:
    random = np.random.default_rng(3)
    entries = make_entries(codec, random_numbers(codec, 1500, random), random)
    segment = store(io, tmp_path, entries, codec)
    assert segment.key_definition.codec == codec
    assert segment.bytes == Path(segment.path).stat().st_size
    assert segment.entries == len(entries)
    assert segment.tombstones == int((entries.file == -1).sum())
    assert (segment.first_key, segment.last_key) == (plain(entries.keys)[0], plain(entries.keys)[-1])
    assert segment.greatest_order == max(tuple(order) for order in entries.orders.tolist())
    assert SegmentInfo.model_validate_json(segment.model_dump_json(by_alias=True)) == segment


def test_footer_describes_a_segment_without_its_root(tmp_path: Path, io: PyArrowFileIO) -> None:
    segment = store(io, tmp_path, row_entries(range(9), [0] * 9, range(9)), ORDERED_64)
    keys, directory, orders = read_blobs(io, segment.path)
    assert (keys.type, directory.type) == (BLOB_TYPE, DIRECTORY_TYPE)
    assert (keys.span, directory.span, orders.span) == (segment.payload, segment.directory, segment.orders)
    assert keys.properties == {
        "codec": "ordered-64",
        "hash_bits": "96",
        "salt": "",
        "key-ids": "",
        "sequence-ids": "",
        "layout": "runs",
        "num_rows": "9",
        "geometry": segment.geometry.model_dump_json(),
        "covered-files": "a\nb\nc",
        "directory-crc": str(segment.directory_crc),
    }


def test_directory_has_the_documented_bytes(tmp_path: Path, io: PyArrowFileIO) -> None:
    numbers = [number for start in range(0, 2_500, 4) for number in (start, start + 1, start + 2)]
    segment = store(io, tmp_path, row_entries(numbers, [0] * len(numbers), range(len(numbers))), ORDERED_64)
    shape = segment.geometry
    assert (segment.layout, shape.rows, shape.blocks) == (Layout.RUNS, 625, 3)
    raw = read_span(io, segment.path, segment.directory, 1 << 20)
    content = payload(io, segment, tmp_path).read_bytes()
    first = np.frombuffer(raw, "<u8", 3)
    before = np.frombuffer(raw, "<u8", 3, 24)
    checksums = np.frombuffer(raw, "<u4", 3, 48)
    assert first.tolist() == [0, 1024, 2048]
    assert before.tolist() == [0, 3 * 256, 3 * 512]
    spans = [(shape.base + block * shape.stride, shape.stride) for block in range(2)] + [
        (shape.tail, shape.tail_length)
    ]
    assert checksums.tolist() == [zlib.crc32(content[offset : offset + length]) for offset, length in spans]
    assert len(raw) == 60
