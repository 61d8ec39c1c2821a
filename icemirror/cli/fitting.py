"""Tables for people in the width there is: columns give way, or all are stacked; names and numbers are not cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its cells. `spare`: it may be left out, the greatest first; 0: never."""

    name: str
    cells: Sequence[Text]
    justify: Literal["left", "right"] = "left"
    spare: int = 0

    @property
    def width(self) -> int:
        """The characters that it needs."""
        return max(cell_len(text) for text in (self.name, *(cell.plain for cell in self.cells)))


def fit(columns: Sequence[Column], width: int) -> Table | Group:
    """One line for each row; where even the columns that must be there are too wide, a line for each of their cells."""
    shown = list(columns)
    while _needed(shown) > width and (spare := max(column.spare for column in shown)):
        shown = [column for column in shown if column.spare != spare]
    return _grid(shown) if _needed(shown) <= width else _stacked(columns)


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _grid(columns: Sequence[Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.name, justify=column.justify, no_wrap=True)
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
