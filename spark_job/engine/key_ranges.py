"""Key ranges of the shards: where each begins, and the events in it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_job.changelog.event_batch import EventBatch
from spark_job.columns.arrays import U64
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.engine.size_policy import estimate_events
from spark_job.engine.work import ShardOutput, Work, WorkFile
from spark_job.index.key_codec import Encoding

_SAMPLE_FILES = 8
_SAMPLE_KEYS = 1000


def shard_bounds(work: Work[ShardOutput], shards: int) -> U64:
    """Return the leading 64 bits of the key at which each shard but the first begins; empty if there are no keys."""
    if work.codec.encoding is Encoding.HASHED:
        return np.array([(shard << 64) // shards for shard in range(1, shards)], dtype=np.uint64)
    files = [file for file in work.files if file.row_count]
    if not files:
        return np.empty(0, dtype=np.uint64)
    step = max(1, len(files) // _SAMPLE_FILES)
    sample = np.sort(np.concatenate([_sample_keys(work, file) for file in files[::step]]))
    if not len(sample):
        return np.empty(0, dtype=np.uint64)
    return sample[[len(sample) * shard // shards for shard in range(1, shards)]]


def _sample_keys(work: Work[ShardOutput], file: WorkFile) -> U64:
    """Return keys of one file, evenly spaced in its middle row group."""
    io, key_ids = work.key_source(file)
    with open_parquet(io, file.path) as parquet:
        middle_group = parquet.num_row_groups // 2
        columns = read_columns(parquet, file.path, key_ids, [middle_group])
    sampled_rows = pa.array(np.arange(0, len(columns[0]), max(1, len(columns[0]) // _SAMPLE_KEYS)))
    # The shard that reads a NULL key refuses or rejects it.
    sample = [column.take(sampled_rows).drop_null() for column in columns]
    return work.codec.encode(sample).leading if len(sample[0]) else np.empty(0, dtype=np.uint64)


def cut_by_key(events: EventBatch, bounds: U64) -> list[EventBatch]:
    """Return the events of each shard, in order."""
    shard_of_event = np.searchsorted(bounds, events.keys.leading, side="right").astype(np.uint16)
    order = np.argsort(shard_of_event, kind="stable")  # 16 bits: numpy sorts them by radix
    edges = np.searchsorted(shard_of_event[order], np.arange(len(bounds) + 2))
    return [events.take(order[start:end]) for start, end in pairwise(edges)]


def group_files_by_events(work: Work[ShardOutput], groups: int) -> list[range]:
    """Return runs of consecutive files with about the same number of events each."""
    events = np.cumsum([estimate_events(file) for file in work.files])
    cuts = np.searchsorted(events, np.linspace(0, events[-1], groups + 1)[1:-1], side="left") + 1
    edges = distinct(np.clip(np.concatenate([[0], cuts, [len(work.files)]]), 0, len(work.files)))
    return [range(int(start), int(end)) for start, end in pairwise(edges)]
