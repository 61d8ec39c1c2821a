"""What a workload is: a table of some shape and size, and batches of changes to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """The layout of a row. Tables of one shape share their base files, at any size."""

    name: str
    make_rows: Callable[[Ids, np.random.Generator], pa.Table]
    partition: str | None = None  # a column
    streamed: bool = False  # the base rows have a sequence each, instead of the initial copy's for all


@dataclass(frozen=True)
class KeyChanges:
    """The changes of one batch in the order of events: which rows, and INSERT, UPDATE or DELETE for each."""

    ids: Ids
    operations: NDArray[np.str_]


class Workload(Protocol):
    """A table and changes to it. Everything is a function of the generator that is passed in."""

    @property
    def name(self) -> str:
        """Names the workload, its table and its folder."""

    @property
    def title(self) -> str:
        """The description for readers."""

    @property
    def shape(self) -> Shape:
        """The layout of its rows."""

    @property
    def rows(self) -> int:
        """Rows of the table before the first batch; generated from the numbers 0 … rows − 1."""

    @property
    def events(self) -> tuple[int, ...]:
        """Events of each batch; the first batch is the warm-up."""

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """The changes of a batch by its number."""
