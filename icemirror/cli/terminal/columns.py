"""Fits tables to the terminal: text wraps, drop_rank columns are dropped, or rows are stacked. Names are never cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

_GAP = 2
_MIN_TEXT_WIDTH = 20
_LONGEST_WORD = 40  # longer words are broken


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its cells. `drop_rank`: the greatest is dropped first, 0 never. `wraps`: the cells are sentences."""

    name: str
    cells: Sequence[Text]
    justify: Literal["left", "right"] = "left"
    drop_rank: int = 0
    wraps: bool = False

    @property
    def width(self) -> int:
        """The width of its longest cell."""
        return max(cell_len(text) for text in (self.name, *(cell.plain for cell in self.cells)))

    @property
    def min_width(self) -> int:
        """The smallest usable width: text may wrap between words, but not in them."""
        if not self.wraps:
            return self.width
        words = (word for cell in self.cells for word in cell.plain.split())
        longest = max(map(cell_len, words), default=0)
        return min(self.width, max(_MIN_TEXT_WIDTH, cell_len(self.name), min(longest, _LONGEST_WORD)))


def fit_columns(columns: Sequence[Column], width: int) -> Table | Group:
    """Return one line per row; if the required columns are too wide, one line per cell."""
    shown = list(columns)
    while _min_width(shown) > width and (greatest := max(column.drop_rank for column in shown)):
        shown = [column for column in shown if column.drop_rank != greatest]
    return _grid(shown, width) if _min_width(shown) <= width else _stacked(columns)


def count_column(name: str, counts: Sequence[int], drop_rank: int = 0) -> Column:
    """Return a right-aligned column of counts."""
    return Column(name, [Text(f"{count:,}") for count in counts], "right", drop_rank)


def _min_width(columns: Sequence[Column]) -> int:
    return sum(column.min_width for column in columns) + _GAP * (len(columns) - 1)


def _grid(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    spare_width = width - _min_width(columns)
    for column in columns:
        column_width = min(column.width, column.min_width + spare_width)
        spare_width -= column_width - column.min_width
        table.add_column(
            column.name,
            justify=column.justify,
            no_wrap=not column.wraps,
            width=column_width if column.wraps else None,
            overflow="fold",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _stacked(columns: Sequence[Column]) -> Group:
    blocks: list[Table | Text] = []
    columns = [column for column in columns if column.name]
    for cells in zip(*(column.cells for column in columns), strict=True):
        block = Table(box=None, pad_edge=False, show_header=False)
        block.add_column(style="bold", no_wrap=True)
        block.add_column(overflow="fold")
        for column, cell in zip(columns, cells, strict=True):
            if cell.plain:
                block.add_row(column.name, cell)
        blocks += [Text(), block] if blocks else [block]
    return Group(*blocks)
