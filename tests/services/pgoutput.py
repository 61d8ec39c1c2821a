"""Decoder for the messages of pgoutput, PostgreSQL's logical decoding plugin (protocol version 1).

row:  count int16, then for each column:  n (NULL) | u (TOAST that did not change) | t, length int32, text
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Unchanged(Enum):
    """Marks an unchanged large value, which the message omits."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Cell = str | None | Unchanged
Cells = Mapping[str, Cell]


@dataclass(frozen=True)
class Begin:
    """The start of a transaction, with the LSN of its commit."""

    commit_lsn: int
    xid: int


@dataclass(frozen=True)
class Commit:
    """The end of a transaction."""

    commit_lsn: int


@dataclass(frozen=True)
class Relation:
    """The columns of a table in the following messages; `keys` are the columns of its replica identity."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row after a change (None: deleted), and its replica identity before: the full row, or the key.

    An update contains the old key only if it changed.
    """

    new: Cells | None
    old: Cells | None
    inserted: bool = False


@dataclass(frozen=True)
class Truncate:
    """A TRUNCATE of the table."""


@dataclass(frozen=True)
class Message:
    """A message of pg_logical_emit_message."""

    prefix: str
    content: str


Decoded = Begin | Commit | Relation | Row | Truncate | Message


class Decoder:
    """Decodes messages; keeps the relations that it received."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def decode(self, data: bytes) -> Decoded | None:
        """Decode one message; return None for a type message."""
        reader = _Reader(data)
        match reader.char():
            case "B":
                commit_lsn, _at, xid = reader.numbers("qqi")
                return Begin(commit_lsn, xid)
            case "C":
                _flags, commit_lsn, _end, _at = reader.numbers("bqqq")
                return Commit(commit_lsn)
            case "R":
                return self._relation(reader)
            case "I":
                relation = self._known(reader)
                reader.char()
                return Row(reader.cells(relation), None, inserted=True)
            case "U":
                return self._update(reader)
            case "D":
                relation = self._known(reader)
                return Row(None, _old(reader, relation, reader.char()))
            case "T":
                return Truncate()
            case "M":
                reader.numbers("bq")
                prefix = reader.text()
                return Message(prefix, reader.raw(reader.number("i")).decode())
            case "Y":
                return None
            case char:
                raise ValueError(f"a message of kind {char!r}")

    def _relation(self, reader: _Reader) -> Relation:
        oid = reader.number("i")
        reader.text()
        reader.text()
        reader.char()
        columns, keys = [], []
        for _ in range(reader.number("h")):
            is_key = reader.number("b") == 1
            columns.append(reader.text())
            keys += [columns[-1]] if is_key else []
            reader.numbers("ii")
        self._relations[oid] = Relation(tuple(columns), tuple(keys))
        return self._relations[oid]

    def _known(self, reader: _Reader) -> Relation:
        return self._relations[reader.number("i")]

    def _update(self, reader: _Reader) -> Row:
        relation, old = self._known(reader), None
        if (char := reader.char()) != "N":
            old = _old(reader, relation, char)
            reader.char()
        return Row(reader.cells(relation), old)


def _old(reader: _Reader, relation: Relation, char: str) -> Cells:
    cells = reader.cells(relation)
    return cells if char == "O" else {name: cells[name] for name in relation.keys}


class _Reader:
    """Reads the fields of a message in order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def raw(self, length: int) -> bytes:
        self._at += length
        return self._data[self._at - length : self._at]

    def char(self) -> str:
        return self.raw(1).decode()

    def numbers(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(f">{layout}", self.raw(struct.calcsize(f">{layout}")))

    def number(self, layout: str) -> int:
        return int(self.numbers(layout)[0])

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        text = self.raw(end - self._at).decode()
        self._at += 1
        return text

    def cells(self, relation: Relation) -> Cells:
        count = self.number("h")
        if count != len(relation.columns):
            raise ValueError(f"{count} values for the columns {relation.columns}")
        return {name: self._cell() for name in relation.columns}

    def _cell(self) -> Cell:
        match self.char():
            case "n":
                return None
            case "u":
                return UNCHANGED
            case "t":
                return self.raw(self.number("i")).decode()
            case char:
                raise ValueError(f"a value of kind {char!r}")
