"""Defects in profiles: unchanged values, changed keys, and sequences in text."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_job.changelog import read_events, sequence
from spark_job.changelog.sequence_text import SequenceEncoding
from spark_job.merge import unchanged_values, value_search
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((unchanged_values.UnchangedValues, "fill"))
def placeholder_overwrites_the_value(_fill: Any) -> Any:
    return lambda _self, _winners, rows: rows


@plant((value_search.ValueSearch, "search_events"))
def events_of_the_slice_not_read_for_a_value(_search: Any) -> Any:
    return lambda self, _events, _read, skip_last: np.zeros(len(self.keys), dtype=np.bool_)


@plant((value_search, "lowest_reachable"))
def value_taken_from_before_a_delete(_lowest: Any) -> Any:
    return lambda _events, first: first


@plant((unchanged_values.UnchangedValues, "_drop_stale"))
def value_taken_from_a_late_event(_drop: Any) -> Any:
    return lambda _self, events, _keys, _known: events


@plant((read_events, "_with_old_keys"))
def old_key_left_after_a_key_change(_with_old_keys: Any) -> Any:
    return lambda changes, *_arguments: changes


@plant((sequence, "decode_text"))
def sequence_compared_as_text(decode: Any) -> Any:
    def defective(array: Any, form: Any, *arguments: Any) -> Any:
        if form is not SequenceEncoding.BINLOG_FILE:
            return decode(array, form, *arguments)
        texts = [text.removeprefix("log.").encode().ljust(8, b"\0") for text in array.to_pylist()]
        return (np.array([int.from_bytes(text, "big") for text in texts], dtype=np.uint64),)

    return defective


@plant((sequence.SequenceCodec, "encode"))
def tie_broken_by_arrival(encode: Any) -> Any:
    """Ignores the order within a transaction."""

    def defective(self: Any, *arguments: Any, **options: Any) -> Any:
        parts = encode(self, *arguments, **options)
        parts[:, -1] = 0
        return parts

    return defective


NAMES = frozenset(PLANTED) - _before
