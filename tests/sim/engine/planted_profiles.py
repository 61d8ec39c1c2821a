"""Mistakes in profiles: unchanged values, changed keys, and sequences in text."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_job.changelog import read_changes, sequence
from spark_job.changelog.sequence_text import SequenceEncoding
from spark_job.merge import previous_values as look_back
from spark_job.merge import unchanged_values as old_values
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((old_values.UnchangedValues, "fill"))
def placeholder_overwrites_the_value(_fill: Any) -> Any:
    return lambda _self, _winners, rows: rows


@plant((look_back.ValueSearch, "search_events"))
def events_of_the_slice_not_read_for_a_value(_ask: Any) -> Any:
    return lambda self, _events, _read, skip_last: np.zeros(len(self.keys), dtype=np.bool_)


@plant((look_back, "lowest_reachable"))
def value_taken_from_before_a_delete(_lowest: Any) -> Any:
    return lambda _told, first: first


@plant((old_values.UnchangedValues, "_drop_stale"))
def value_taken_from_a_late_event(_count: Any) -> Any:
    return lambda _self, told, _keys, _known: told


@plant((read_changes, "_with_old_keys"))
def old_key_left_after_a_key_change(_with: Any) -> Any:
    return lambda changes, *_given: changes


@plant((sequence, "decode_text"))
def sequence_compared_as_text(decode: Any) -> Any:
    def wrong(array: Any, form: Any, *given: Any) -> Any:
        if form is not SequenceEncoding.BINLOG_FILE:
            return decode(array, form, *given)
        texts = [text.removeprefix("log.").encode().ljust(8, b"\0") for text in array.to_pylist()]
        return (np.array([int.from_bytes(text, "big") for text in texts], dtype=np.uint64),)

    return wrong


@plant((sequence.SequenceCodec, "encode"))
def tie_broken_by_arrival(encode: Any) -> Any:
    """Ignores the order within a transaction."""

    def wrong(self: Any, *given: Any, **named: Any) -> Any:
        parts = encode(self, *given, **named)
        parts[:, -1] = 0
        return parts

    return wrong


NAMES = frozenset(PLANTED) - _before
