"""Tables for people in the width there is: text wraps, columns give way, or all are stacked; names are not cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

_GAP = 2
_LEAST_TEXT = 20  # characters of a line that are still read as text
_LONGEST_WORD = 40  # that is kept whole in a text


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its cells. `spare`: it may be left out, the greatest first; 0: never. `wraps`: it is text."""

    name: str
    cells: Sequence[Text]
    justify: Literal["left", "right"] = "left"
    spare: int = 0
    wraps: bool = False

    @property
    def width(self) -> int:
        """The characters that it needs in one line."""
        return max(cell_len(text) for text in (self.name, *(cell.plain for cell in self.cells)))

    @property
    def least(self) -> int:
        """The characters that it cannot do without: a word of a text stays whole, unless it is very long."""
        if not self.wraps:
            return self.width
        words = (word for cell in self.cells for word in cell.plain.split())
        longest = max(map(cell_len, words), default=0)
        return min(self.width, max(_LEAST_TEXT, cell_len(self.name), min(longest, _LONGEST_WORD)))


def fit(columns: Sequence[Column], width: int) -> Table | Group:
    """One line for each row; where even the columns that must be there are too wide, a line for each of their cells."""
    shown = list(columns)
    while _needed(shown) > width and (spare := max(column.spare for column in shown)):
        shown = [column for column in shown if column.spare != spare]
    return _grid(shown, width) if _needed(shown) <= width else _stacked(columns)


def numbers(name: str, counts: Sequence[int], spare: int = 0) -> Column:
    """A column of counts."""
    return Column(name, [Text(f"{count:,}") for count in counts], "right", spare)


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.least for column in columns) + _GAP * (len(columns) - 1)


def _grid(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    left = width - _needed(columns)
    for column in columns:
        own = min(column.width, column.least + left)
        left -= own - column.least
        table.add_column(
            column.name,
            justify=column.justify,
            no_wrap=not column.wraps,
            width=own if column.wraps else None,
            overflow="fold",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _stacked(columns: Sequence[Column]) -> Group:
    blocks: list[Table | Text] = []
    named = [column for column in columns if column.name]
    for cells in zip(*(column.cells for column in named), strict=True):
        block = Table(box=None, pad_edge=False, show_header=False)
        block.add_column(style="bold", no_wrap=True)
        block.add_column(overflow="fold")
        for column, cell in zip(named, cells, strict=True):
            if cell.plain:
                block.add_row(column.name, cell)
        blocks += [Text(), block] if blocks else [block]
    return Group(*blocks)
