"""The quick look at values: random rows of the mirror in the index, and random entries of the index in the mirror."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray

from spark_job.columns.parquet_columns import open_parquet, read_at
from spark_job.distinct import distinct
from spark_job.iceberg.view import LiveFile
from spark_job.key_index.blocks import read_blocks, read_directory
from spark_job.key_index.damage import reading_segment
from spark_job.key_index.keys import Keys, Mask, concat_keys
from spark_job.key_index.ranges import open_ranges
from spark_job.key_index.root import Root
from spark_job.key_index.segment import SegmentInfo
from spark_job.locate import Index, Located, locate_keys
from spark_job.verify.findings import Kind
from spark_job.verify.subject import Subject
from spark_job.write.vectors import deleted_positions

_MOST_FILES = 32
_BLOCKS_EACH = 4


@dataclass(frozen=True)
class Sampled:
    """Places where the sample does not fit, by kind, and how much was looked at."""

    wrong: Mapping[Kind, list[tuple[str, int]]]
    rows: int
    entries: int


def check_sample(subject: Subject, count: int, dice: Generator) -> Sampled:
    """Looks at so many rows and entries of the snapshot that the index belongs to."""
    root, files = subject.mirror.root, subject.index_files
    if root is None or files is None or not count:
        return Sampled({}, 0, 0)
    index = Index(subject.io, root.segments, root.gone)
    wrong: dict[Kind, list[tuple[str, int]]] = {}
    rows = _check_rows(subject, root, files, index, count, dice, wrong)
    entries = _check_entries(subject, root, files, index, count, dice, wrong)
    return Sampled(wrong, rows, entries)


def _spread(weights: Sequence[int], count: int, dice: Generator) -> dict[int, int]:
    """How many of `count` to take from each: by weight, from few of them."""
    weight = np.array(weights, dtype=np.float64)
    if not weight.sum():
        return {}
    few = min(_MOST_FILES, int((weight > 0).sum()))
    chosen = dice.choice(len(weight), few, replace=False, p=weight / weight.sum())
    shares = dice.multinomial(count, weight[chosen] / weight[chosen].sum())
    return {int(at): int(share) for at, share in zip(chosen, shares, strict=True) if share}


def _check_rows(
    subject: Subject,
    root: Root,
    files: Mapping[str, LiveFile],
    index: Index,
    count: int,
    dice: Generator,
    wrong: dict[Kind, list[tuple[str, int]]],
) -> int:
    """Random live rows: the index must point at exactly them."""
    ordinals = {file.path: at for at, file in enumerate(root.files) if not file.gone}
    listed = list(files.values())
    shares = _spread([file.rows - file.deleted for file in listed], count, dice)
    dead = deleted_positions(subject.io, {listed[at].path: listed[at] for at in shares})
    keys: list[Keys] = []
    path_of: list[str] = []
    position: list[NDArray[np.int64]] = []
    for at, share in shares.items():
        path = listed[at].path
        alive = np.ones(listed[at].rows, dtype=np.bool_)
        alive[dead[path]] = False
        choices = np.flatnonzero(alive)
        rows = np.sort(dice.choice(choices, min(share, len(choices)), replace=False))
        keys.append(_keys_at(subject, path, rows))
        path_of += [path] * len(rows)
        position.append(rows)
    if not keys:
        return 0
    asked, pos = concat_keys(keys), np.concatenate(position)
    order = asked.argsort()
    known = where(index, root, asked.take(order))
    for place, file, found in zip(order.tolist(), known.file.tolist(), known.pos.tolist(), strict=True):
        path, row = path_of[place], int(pos[place])
        if file < 0:
            wrong.setdefault(Kind.NOT_INDEXED, []).append((path, row))
        elif (file, found) != (ordinals.get(path), row):
            wrong.setdefault(Kind.WRONG_PLACE, []).append((path, row))
    return len(pos)


def _check_entries(
    subject: Subject,
    root: Root,
    files: Mapping[str, LiveFile],
    index: Index,
    count: int,
    dice: Generator,
    wrong: dict[Kind, list[tuple[str, int]]],
) -> int:
    """Random keys of the index: where it points at a row, a live row of that key must be there."""
    shares = _spread([segment.entries for segment in root.segments], count, dice)
    drawn = [_draw_keys(subject, root.segments[at], share, dice) for at, share in shares.items()]
    if not drawn:
        return 0
    keys = concat_keys(drawn)
    keys = keys.take(keys.argsort())
    known = where(index, root, keys)
    pointed = distinct(known.file[known.file >= 0]).tolist()
    listed = [root.files[ordinal].path for ordinal in pointed]
    dead = deleted_positions(subject.io, {path: files[path] for path in listed if path in files})
    for ordinal in pointed:
        path = root.files[ordinal].path
        here = np.flatnonzero(known.file == ordinal)
        here = here[np.argsort(known.pos[here])]
        rows = known.pos[here]
        live = files.get(path)
        if live is None:
            wrong.setdefault(Kind.NO_SUCH_ROW, []).extend((path, int(row)) for row in rows)
            continue
        there = (rows < live.rows) & ~np.isin(rows, dead[path])
        bad = list(rows[~there])
        if there.any():
            same = _same(_keys_at(subject, path, rows[there]), keys.take(here[there]))
            bad += list(rows[there][~same])
        if bad:
            wrong.setdefault(Kind.NO_SUCH_ROW, []).extend((path, int(row)) for row in bad)
    return len(keys)


def _draw_keys(subject: Subject, segment: SegmentInfo, count: int, dice: Generator) -> Keys:
    """Random keys of a segment, from a few of its blocks."""
    few = min(_BLOCKS_EACH, segment.geometry.blocks)
    numbers = np.sort(dice.choice(segment.geometry.blocks, few, replace=False)).astype(np.intp)
    with reading_segment(segment.path):
        directory = read_directory(subject.io, segment)
        with open_ranges(subject.io, segment.path) as source:
            blocks = read_blocks(source, segment, directory, numbers)
    block = dice.integers(0, few, count)
    row = (dice.random(count) * blocks.filled[block]).astype(np.intp)
    low = blocks.columns["key_lo"][block, row].astype(np.uint64)
    if "length" in blocks.columns:
        length = blocks.columns["length"][block, row].astype(np.float64)
        low = low + (dice.random(count) * length).astype(np.uint64)
    high = blocks.columns.get("key_hi")
    return Keys(low, None if high is None else high[block, row].astype(np.uint64))


def _keys_at(subject: Subject, path: str, rows: NDArray[np.int64]) -> Keys:
    """The keys of these rows, which must be ascending; one row may be asked for twice."""
    distinct, place = np.unique(rows, return_inverse=True)
    with open_parquet(subject.io, path) as parquet:
        columns = read_at(parquet, path, subject.key_ids, distinct)
    return subject.shape.codec.encode([column.take(pa.array(place)) for column in columns])


def _same(one: Keys, other: Keys) -> Mask:
    same: Mask = one.lo == other.lo
    if one.hi is not None and other.hi is not None:
        same &= one.hi == other.hi
    return same


def where(index: Index, root: Root, keys: Keys) -> Located:
    """Where the rows of these keys are; asked with the greatest of orders, so that those of the index are not read."""
    parts = len(root.segments[0].greatest) if root.segments else 1
    return locate_keys(index, keys, np.full((len(keys), parts), np.iinfo(np.uint64).max, dtype=np.uint64))
