"""Fates and sequences in plain words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType

from spark_job.changelog.sequence import SequenceCodec
from spark_job.changelog.sequence_text import TEN_TO_HALF, Form
from spark_job.changelog.shape import Operation
from spark_job.columns.json_values import Json, moment_text
from spark_job.explain.fates import Fate, KeyEvents, Verdict

_SIGN_BIT = 1 << 63
_DIGITS = Context(prec=76)  # twice those of a decimal


def sequence_text(sequence: Mapping[str, Json]) -> str:
    """The values of all sequence columns."""
    return ", ".join(str(value) for value in sequence.values())


def sequence_of(order: Sequence[int], codec: SequenceCodec, schema: Schema) -> dict[str, Json]:
    """The sequence in an order of the index, as the changelog's columns would hold it; NULL where it is the lowest."""
    parts = iter(order)
    found: dict[str, Json] = {}
    for column in codec.columns:
        own = [next(parts) for _ in range(column.parts)]
        kind = schema.find_type(column.field_id)
        found[column.name] = _sequence_text(column.form, own, kind) if any(own) else _zero(column.form, own)
    return found


def _zero(form: Form, parts: Sequence[int]) -> Json:
    return f"{parts[0]:016x}/{parts[1]:016x}" if form is Form.HEX_PAIR else None


def _sequence_text(form: Form, parts: Sequence[int], kind: IcebergType) -> Json:
    match form:
        case Form.NUMBER:
            return _number(parts[0], schema_to_pyarrow(kind))
        case Form.DECIMAL:
            unscaled = ((parts[0] ^ _SIGN_BIT) << 64 | parts[1]) - (parts[0] < _SIGN_BIT) * (1 << 128)
            scale = kind.scale if isinstance(kind, DecimalType) else 0
            return str(Decimal(unscaled).scaleb(-scale, context=_DIGITS))
        case Form.HEX_PAIR:
            return f"{parts[0]:016x}/{parts[1]:016x}"
        case Form.DIGITS:
            return str(parts[0] * TEN_TO_HALF + parts[1])
        case Form.TIMESTAMP:
            return _number(parts[0], pa.timestamp("us"))
        case Form.POSTGRES_LSN:
            return f"{parts[0] >> 32:X}/{parts[0] & 0xFFFFFFFF:X}"
        case Form.POSTGRES_SEQUENCE:
            return f'["{parts[0]}","{parts[1]}"]'
        case Form.BINLOG_FILE:
            return parts[0]
        case Form.SQLSERVER_LSN:
            return f"{parts[0] >> 32:08x}:{parts[0] & 0xFFFFFFFF:08x}:{parts[1]:04x}"


def _number(part: int, stored: pa.DataType) -> Json:
    signed = int(np.uint64(part ^ _SIGN_BIT).view(np.int64))
    return moment_text(signed, stored) if pa.types.is_temporal(stored) else signed


class Teller:
    """Says what became of the events of a key; `numbers` and `sequences` are theirs, in the order of arrival.

    `flags`: deletes keep their rows.
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

    def tell(self, at: int, verdict: Verdict) -> str:
        """The fate of one event."""
        words = self._fate(at, verdict)
        if verdict.repeat_of is not None:
            same = ", with the same values" if self._events.does(at) is Operation.UPSERT else ""
            words += f"; it is a repeat of event {self._numbers[verdict.repeat_of]}{same}"
        return words

    def _fate(self, at: int, verdict: Verdict) -> str:
        match verdict.fate:
            case Fate.MADE_ROW:
                return "made the row"
            case Fate.DELETED_ROW:
                return "flagged the row as deleted" if self._flags else "deleted the row"
            case Fate.OVERTAKEN:
                return f"overtaken by {self._other(at, verdict.by)}"
            case Fate.LATE:
                return f"came late: older than {self._other(at, verdict.by)}"
            case Fate.TRUNCATED:
                return "does not count: the source was truncated after it"
            case Fate.WAITING:
                return f"not merged yet (waits after the cursor): {self._future(at, verdict)}"

    def _future(self, at: int, verdict: Verdict) -> str:
        match verdict.will:
            case Fate.MADE_ROW:
                return "will make the row"
            case Fate.DELETED_ROW:
                return "will flag the row as deleted" if self._flags else "will delete the row"
            case Fate.OVERTAKEN:
                return f"will be overtaken by {self._other(at, verdict.by)}"
            case Fate.TRUNCATED:
                return "will not count, the source was truncated after it"
            case _:
                return f"will come late, older than {self._other(at, verdict.by)}"

    def _other(self, at: int, by: int | None) -> str:
        if by is None:
            return "what is there, which no event that is left tells of"
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
