"""Describes fates and sequences of events in plain words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType

from spark_job.changelog.sequence import SequenceCodec
from spark_job.changelog.sequence_text import TEN_TO_HALF, SequenceEncoding
from spark_job.changelog.shape import Operation
from spark_job.columns.json_values import Json, temporal_text
from spark_job.inspect.explain.event_fates import EventFate, EventVerdict, KeyEvents

_SIGN_BIT = 1 << 63
_DIGITS = Context(prec=76)  # twice those of a decimal


def format_sequence(sequence: Mapping[str, Json]) -> str:
    """Return the values of all sequence columns as text."""
    return ", ".join(str(value) for value in sequence.values())


def decode_sequence(order: Sequence[int], codec: SequenceCodec, schema: Schema) -> dict[str, Json]:
    """Decode the sequence in an order of the index to values of the changelog's columns; NULL for the lowest one."""
    parts = iter(order)
    found: dict[str, Json] = {}
    for column in codec.columns:
        own = [next(parts) for _ in range(column.parts)]
        kind = schema.find_type(column.field_id)
        found[column.name] = _sequence_text(column.form, own, kind) if any(own) else _zero(column.form, own)
    return found


def _zero(form: SequenceEncoding, parts: Sequence[int]) -> Json:
    return f"{parts[0]:016x}/{parts[1]:016x}" if form is SequenceEncoding.HEX_PAIR else None


def _sequence_text(form: SequenceEncoding, parts: Sequence[int], kind: IcebergType) -> Json:
    match form:
        case SequenceEncoding.NUMBER:
            return _number(parts[0], schema_to_pyarrow(kind))
        case SequenceEncoding.DECIMAL:
            unscaled = ((parts[0] ^ _SIGN_BIT) << 64 | parts[1]) - (parts[0] < _SIGN_BIT) * (1 << 128)
            scale = kind.scale if isinstance(kind, DecimalType) else 0
            return str(Decimal(unscaled).scaleb(-scale, context=_DIGITS))
        case SequenceEncoding.HEX_PAIR:
            return f"{parts[0]:016x}/{parts[1]:016x}"
        case SequenceEncoding.DIGITS:
            return str(parts[0] * TEN_TO_HALF + parts[1])
        case SequenceEncoding.TIMESTAMP:
            return _number(parts[0], pa.timestamp("us"))
        case SequenceEncoding.POSTGRES_LSN:
            return f"{parts[0] >> 32:X}/{parts[0] & 0xFFFFFFFF:X}"
        case SequenceEncoding.POSTGRES_SEQUENCE:
            return f'["{parts[0]}","{parts[1]}"]'
        case SequenceEncoding.BINLOG_FILE:
            return parts[0]
        case SequenceEncoding.SQLSERVER_LSN:
            return f"{parts[0] >> 32:08x}:{parts[0] & 0xFFFFFFFF:08x}:{parts[1]:04x}"


def _number(part: int, stored: pa.DataType) -> Json:
    signed = int(np.uint64(part ^ _SIGN_BIT).view(np.int64))
    return temporal_text(signed, stored) if pa.types.is_temporal(stored) else signed


class EventDescriber:
    """Describes the fates of the events of a key; `numbers` and `sequences` are theirs, in the order of arrival.

    `flags`: deletes only flag their rows.
    """

    def __init__(
        self,
        events: KeyEvents,
        numbers: Mapping[int, int],
        sequences: Sequence[str],
        *,
        flags: bool = False,
    ) -> None:
        self._events = events
        self._numbers = numbers
        self._sequences = sequences
        self._flags = flags

    def describe(self, at: int, verdict: EventVerdict) -> str:
        """Describe the fate of one event."""
        words = self._fate(at, verdict)
        if verdict.repeat_of is not None:
            same = ", with the same values" if self._events.operation(at) is Operation.UPSERT else ""
            words += f"; it is a repeat of event {self._numbers[verdict.repeat_of]}{same}"
        return words

    def _fate(self, at: int, verdict: EventVerdict) -> str:
        match verdict.fate:
            case EventFate.MADE_ROW:
                return "made the row"
            case EventFate.DELETED_ROW:
                return "flagged the row as deleted" if self._flags else "deleted the row"
            case EventFate.OVERTAKEN:
                return f"overtaken by {self._other(at, verdict.by)}"
            case EventFate.LATE:
                return f"came late: older than {self._other(at, verdict.by)}"
            case EventFate.TRUNCATED:
                return "does not count: the source was truncated after it"
            case EventFate.WAITING:
                return f"not merged yet (waits after the cursor): {self._future(at, verdict)}"

    def _future(self, at: int, verdict: EventVerdict) -> str:
        match verdict.will:
            case EventFate.MADE_ROW:
                return "will make the row"
            case EventFate.DELETED_ROW:
                return "will flag the row as deleted" if self._flags else "will delete the row"
            case EventFate.OVERTAKEN:
                return f"will be overtaken by {self._other(at, verdict.by)}"
            case EventFate.TRUNCATED:
                return "will not count, the source was truncated after it"
            case _:
                return f"will come late, older than {self._other(at, verdict.by)}"

    def _other(self, at: int, by: int | None) -> str:
        if by is None:
            return "the current row, whose event is not in the changelog"
        return f"event {self._numbers[by]} {self._why(at, by)}"

    def _why(self, at: int, by: int) -> str:
        changes, numbers = self._events.changes, self._events.numbers
        if not np.array_equal(changes.sequence[at], changes.sequence[by]):
            return f"with sequence {self._sequences[by]}"
        if numbers[at] != numbers[by]:
            return "of the same sequence, from a later commit"
        if changes.file[at] != changes.file[by]:
            return "of the same sequence, from a later file of the same commit"
        return "of the same sequence, further down in the same file"
