"""What PostgreSQL's own plugin for logical decoding says, message by message (protocol version 1).

row:  count int16, then for each column:  n (NULL) | u (TOAST that did not change) | t, length int32, text
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Unchanged(Enum):
    """Stands where a large value was left alone, and is not told."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Cell = str | None | Unchanged
Cells = Mapping[str, Cell]


@dataclass(frozen=True)
class Begin:
    """A transaction, and where it was committed."""

    commit_lsn: int
    xid: int


@dataclass(frozen=True)
class Commit:
    """Its end."""

    commit_lsn: int


@dataclass(frozen=True)
class Relation:
    """The columns of a table, as the messages after this one have them; `keys`: those of its replica identity."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row after a change (None: deleted), and what the replica identity tells of it before: all of it, or the key.

    An update tells the key only where it changed.
    """

    new: Cells | None
    old: Cells | None
    inserted: bool = False


@dataclass(frozen=True)
class Truncate:
    """All rows are gone."""


@dataclass(frozen=True)
class Message:
    """What somebody said by pg_logical_emit_message."""

    prefix: str
    content: str


Told = Begin | Commit | Relation | Row | Truncate | Message


class Decoder:
    """Remembers the tables that it was told of."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def decode(self, data: bytes) -> Told | None:
        """One message; None: it tells of a type."""
        read = _Reader(data)
        match read.letter():
            case "B":
                commit_lsn, _at, xid = read.numbers("qqi")
                return Begin(commit_lsn, xid)
            case "C":
                _flags, commit_lsn, _end, _at = read.numbers("bqqq")
                return Commit(commit_lsn)
            case "R":
                return self._relation(read)
            case "I":
                relation = self._known(read)
                read.letter()
                return Row(read.cells(relation), None, inserted=True)
            case "U":
                return self._update(read)
            case "D":
                relation = self._known(read)
                return Row(None, _old(read, relation, read.letter()))
            case "T":
                return Truncate()
            case "M":
                read.numbers("bq")
                prefix = read.text()
                return Message(prefix, read.raw(read.number("i")).decode())
            case "Y":
                return None
            case letter:
                raise ValueError(f"a message of kind {letter!r}")

    def _relation(self, read: _Reader) -> Relation:
        oid = read.number("i")
        read.text()
        read.text()
        read.letter()
        columns, keys = [], []
        for _ in range(read.number("h")):
            is_key = read.number("b") == 1
            columns.append(read.text())
            keys += [columns[-1]] if is_key else []
            read.numbers("ii")
        self._relations[oid] = Relation(tuple(columns), tuple(keys))
        return self._relations[oid]

    def _known(self, read: _Reader) -> Relation:
        return self._relations[read.number("i")]

    def _update(self, read: _Reader) -> Row:
        relation, old = self._known(read), None
        if (letter := read.letter()) != "N":
            old = _old(read, relation, letter)
            read.letter()
        return Row(read.cells(relation), old)


def _old(read: _Reader, relation: Relation, letter: str) -> Cells:
    cells = read.cells(relation)
    return cells if letter == "O" else {name: cells[name] for name in relation.keys}


class _Reader:
    """Takes a message apart from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def raw(self, length: int) -> bytes:
        self._at += length
        return self._data[self._at - length : self._at]

    def letter(self) -> str:
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
        match self.letter():
            case "n":
                return None
            case "u":
                return UNCHANGED
            case "t":
                return self.raw(self.number("i")).decode()
            case letter:
                raise ValueError(f"a value of kind {letter!r}")
