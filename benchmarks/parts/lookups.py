"""Lookups of keys in one index segment, without Spark, by the size of the index."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from pyiceberg.io.pyarrow import PyArrowFileIO

from benchmarks.bench import Bench
from benchmarks.parts.scale import Scale
from benchmarks.result import Lookup, Lookups
from spark_job.index.key_codec import Encoding, KeyCodec
from spark_job.index.keys import Keys
from spark_job.index.lookup import find_keys
from spark_job.index.segment import Entries, KeyDefinition, SegmentInfo
from spark_job.index.write_segment import write_segment

_FILE_ROWS = 500_000
_SEED = 7
_ORDER_PARTS = 3


def measure_lookups(scale: Scale, bench: Bench) -> Lookups:
    """Measure lookups; half of the keys exist. Another process builds the index, because that takes much memory."""
    lookups: list[Lookup] = []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for encoding in (Encoding.HASHED, Encoding.ORDERED_64):
            for entries in scale.tables:
                bench.progress.step(f"lookups in {entries:,} {encoding.value} entries")
                with bench.folder() as folder:
                    key_count_and_runs = scale.lookup_keys, scale.lookup_runs
                    lookups.append(
                        pool.submit(_measure, folder, encoding, entries, *key_count_and_runs).result()
                    )
    return Lookups(lookups=tuple(lookups))


def _measure(folder: Path, encoding: Encoding, entries: int, key_count: int, runs: int) -> Lookup:
    rng = np.random.default_rng([_SEED, entries])
    io = PyArrowFileIO()
    keys, segment = _build(io, folder / "segment.puffin", encoding, entries, rng)
    seconds: list[float] = []
    for _ in range(runs + 1):
        requested = _choose(keys, encoding, key_count, rng)
        began = time.perf_counter()
        found = find_keys(io, [segment], requested)
        seconds.append(time.perf_counter() - began)
        if len(found.key_index) < key_count // 2:
            raise AssertionError(f"{len(found.key_index)} keys found, at least {key_count // 2} exist")
    return Lookup(
        codec=encoding.value,
        entries=entries,
        keys=key_count,
        bytes=segment.bytes,
        first_seconds=seconds[0],
        seconds=tuple(seconds[1:]),
    )


def _build(
    io: PyArrowFileIO, path: Path, encoding: Encoding, count: int, rng: np.random.Generator
) -> tuple[Keys, SegmentInfo]:
    """Build a segment. Hashed keys have random rows; every second ordered key is missing, so that runs are short."""
    positions = np.arange(count)
    if encoding is Encoding.HASHED:
        keys = Keys(
            rng.integers(0, 1 << 32, count, dtype=np.uint64),
            np.sort(rng.integers(0, 1 << 64, count, dtype=np.uint64)),
        )
        rng.shuffle(positions)
    else:
        keys = Keys(np.arange(count, dtype=np.uint64) * np.uint64(2) + np.uint64(1 << 63))
    orders = np.broadcast_to(np.zeros(_ORDER_PARTS, dtype=np.uint64), (count, _ORDER_PARTS))
    entries = Entries(keys, (positions // _FILE_ROWS).astype(np.int32), positions % _FILE_ROWS, orders)
    files = -(-count // _FILE_ROWS)
    covered = [f"file:///data/{number:05d}.parquet" for number in range(files)]
    return keys, write_segment(
        io, str(path), entries, KeyDefinition(KeyCodec(encoding)), covered, tuple(range(files))
    )


def _choose(keys: Keys, encoding: Encoding, key_count: int, rng: np.random.Generator) -> Keys:
    present = keys.take(rng.choice(len(keys), key_count - key_count // 2, replace=False))
    if encoding is Encoding.HASHED and present.hi is not None:
        low = rng.integers(0, 1 << 32, key_count // 2, dtype=np.uint64)
        high = rng.integers(0, 1 << 64, key_count // 2, dtype=np.uint64)
        both = Keys(np.concatenate([present.lo, low]), np.concatenate([present.hi, high]))
    else:
        absent = keys.take(rng.choice(len(keys), key_count // 2, replace=False)).lo + np.uint64(1)
        both = Keys(np.concatenate([present.lo, absent]))
    return both.take(both.argsort())
