"""A workload: a table of a shape and size, and batches of changes to it."""

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
    streamed: bool = False  # each base row has its own sequence instead of the initial copy's


@dataclass(frozen=True)
class KeyChanges:
    """The changes of one batch in the order of events: ids, and INSERT, UPDATE or DELETE for each."""

    ids: Ids
    operations: NDArray[np.str_]


class Workload(Protocol):
    """A table and changes to it. Everything depends only on the generator that is passed in."""

    @property
    def name(self) -> str:
        """Return the name of the workload, its table and its folder."""

    @property
    def title(self) -> str:
        """Return the description for readers."""

    @property
    def shape(self) -> Shape:
        """Return the layout of its rows."""

    @property
    def rows(self) -> int:
        """Return the rows of the table before the first batch, generated from the numbers 0 … rows − 1."""

    @property
    def events(self) -> tuple[int, ...]:
        """Return the events of each batch; the first batch is the warm-up."""

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """Return the changes of a batch."""
