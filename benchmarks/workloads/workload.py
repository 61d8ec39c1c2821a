"""What a workload is: a table of some size, and batches of changes to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class KeyChanges:
    """The changes of one batch in the order of events: which rows, and INSERT, UPDATE or DELETE for each."""

    ids: Ids
    operations: NDArray[np.str_]


class Workload(Protocol):
    """A table and changes to it. Everything is a function of the generator that is passed in."""

    @property
    def name(self) -> str:
        """Names the workload on the command line, its table and its folder."""

    @property
    def title(self) -> str:
        """What it is, for people."""

    @property
    def group(self) -> str:
        """Workloads of a group are measured together, round by round, so that noise hits all of them."""

    @property
    def rows(self) -> int:
        """Rows of the table before the first batch; their ids are 0 … rows − 1."""

    @property
    def events(self) -> int:
        """Events of one batch."""

    @property
    def rounds(self) -> int:
        """How many batches; the first one is the warm-up."""

    @property
    def shape(self) -> str:
        """Names what `make_rows` makes: workloads of one shape and size share their base table."""

    def make_rows(self, ids: Ids, rng: np.random.Generator) -> pa.Table:
        """Fresh rows with these ids. The column `id` is the key; no value is NULL."""

    def change(self, number: int, rng: np.random.Generator) -> KeyChanges:
        """The changes of a batch by its number."""
