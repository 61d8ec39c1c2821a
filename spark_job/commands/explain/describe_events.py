"""Describes outcomes and sequences of events as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType

from spark_job.changelog.sequence import SequenceCodec
from spark_job.changelog.sequence_text import PART_BASE, SequenceEncoding
from spark_job.changelog.shape import Operation
from spark_job.columns.json_values import Json, temporal_text
from spark_job.commands.explain.event_outcomes import EventExplanation, EventOutcome, KeyEvents

_SIGN_BIT = 1 << 63
_DIGITS = Context(prec=76)  # twice those of a decimal


def format_sequence(sequence: Mapping[str, Json]) -> str:
    """Return the values of all sequence columns as text."""
    return ", ".join(str(value) for value in sequence.values())


def decode_sequence(order: Sequence[int], codec: SequenceCodec, schema: Schema) -> dict[str, Json]:
    """Return the sequence in an order of the index as values of the changelog's columns; NULL for the lowest one."""
    parts = iter(order)
    values: dict[str, Json] = {}
    for column in codec.columns:
        column_parts = [next(parts) for _ in range(column.parts)]
        iceberg_type = schema.find_type(column.field_id)
        values[column.name] = (
            _decode_column(column.encoding, column_parts, iceberg_type)
            if any(column_parts)
            else _decode_zero(column.encoding, column_parts)
        )
    return values


def _decode_zero(encoding: SequenceEncoding, parts: Sequence[int]) -> Json:
    return f"{parts[0]:016x}/{parts[1]:016x}" if encoding is SequenceEncoding.HEX_PAIR else None


def _decode_column(encoding: SequenceEncoding, parts: Sequence[int], iceberg_type: IcebergType) -> Json:
    match encoding:
        case SequenceEncoding.NUMBER:
            return _decode_number(parts[0], schema_to_pyarrow(iceberg_type))
        case SequenceEncoding.DECIMAL:
            unscaled = ((parts[0] ^ _SIGN_BIT) << 64 | parts[1]) - (parts[0] < _SIGN_BIT) * (1 << 128)
            scale = iceberg_type.scale if isinstance(iceberg_type, DecimalType) else 0
            return str(Decimal(unscaled).scaleb(-scale, context=_DIGITS))
        case SequenceEncoding.HEX_PAIR:
            return f"{parts[0]:016x}/{parts[1]:016x}"
        case SequenceEncoding.DIGITS:
            return str(parts[0] * PART_BASE + parts[1])
        case SequenceEncoding.TIMESTAMP:
            return _decode_number(parts[0], pa.timestamp("us"))
        case SequenceEncoding.POSTGRES_LSN:
            return f"{parts[0] >> 32:X}/{parts[0] & 0xFFFFFFFF:X}"
        case SequenceEncoding.POSTGRES_SEQUENCE:
            return f'["{parts[0]}","{parts[1]}"]'
        case SequenceEncoding.BINLOG_FILE:
            return parts[0]
        case SequenceEncoding.SQLSERVER_LSN:
            return f"{parts[0] >> 32:08x}:{parts[0] & 0xFFFFFFFF:08x}:{parts[1]:04x}"


def _decode_number(part: int, arrow_type: pa.DataType) -> Json:
    signed = int(np.uint64(part ^ _SIGN_BIT).view(np.int64))
    return temporal_text(signed, arrow_type) if pa.types.is_temporal(arrow_type) else signed


class EventDescriber:
    """Describes the outcomes of the events of a key; `event_numbers`: the number of each in the report.

    `flags`: deletes only flag their rows.
    """

    def __init__(
        self,
        events: KeyEvents,
        event_numbers: Mapping[int, int],
        sequences: Sequence[str],
        *,
        flags: bool = False,
    ) -> None:
        self._events = events
        self._event_numbers = event_numbers
        self._sequences = sequences
        self._flags = flags

    def describe(self, event: int, explanation: EventExplanation) -> str:
        """Return the outcome of one event as text."""
        text = self._describe_outcome(event, explanation)
        if explanation.repeat_of is not None:
            same_values = (
                ", with the same values" if self._events.operation(event) is Operation.UPSERT else ""
            )
            text += f"; it is a repeat of event {self._event_numbers[explanation.repeat_of]}{same_values}"
        return text

    def _describe_outcome(self, event: int, explanation: EventExplanation) -> str:
        match explanation.outcome:
            case EventOutcome.WROTE_ROW:
                return "wrote the row"
            case EventOutcome.DELETED_ROW:
                return "flagged the row as deleted" if self._flags else "deleted the row"
            case EventOutcome.OVERTAKEN:
                return f"replaced by {self._describe_newer_event(event, explanation.replaced_by)}"
            case EventOutcome.LATE:
                return f"late: older than {self._describe_newer_event(event, explanation.replaced_by)}"
            case EventOutcome.TRUNCATED:
                return "no effect: the source was truncated later"
            case EventOutcome.WAITING:
                return f"not merged yet (waits after the cursor): {self._describe_expected_outcome(event, explanation)}"

    def _describe_expected_outcome(self, event: int, explanation: EventExplanation) -> str:
        match explanation.expected_outcome:
            case EventOutcome.WROTE_ROW:
                return "will write the row"
            case EventOutcome.DELETED_ROW:
                return "will flag the row as deleted" if self._flags else "will delete the row"
            case EventOutcome.OVERTAKEN:
                return f"will be replaced by {self._describe_newer_event(event, explanation.replaced_by)}"
            case EventOutcome.TRUNCATED:
                return "will have no effect, the source was truncated later"
            case _:
                return (
                    f"will be late, older than {self._describe_newer_event(event, explanation.replaced_by)}"
                )

    def _describe_newer_event(self, event: int, replaced_by: int | None) -> str:
        if replaced_by is None:
            return "the current row, whose event is not in the changelog"
        return f"event {self._event_numbers[replaced_by]} {self._describe_tie(event, replaced_by)}"

    def _describe_tie(self, event: int, replaced_by: int) -> str:
        batch, commits = self._events.batch, self._events.commits
        if not np.array_equal(batch.sequence[event], batch.sequence[replaced_by]):
            return f"with sequence {self._sequences[replaced_by]}"
        if commits[event] != commits[replaced_by]:
            return "of the same sequence, from a later commit"
        if batch.file[event] != batch.file[replaced_by]:
            return "of the same sequence, from a later file of the same commit"
        return "of the same sequence, further down in the same file"
