"""The results of a run: one file per cell, so that an interrupted run can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.result import Cell, Run

CellKey = tuple[str, str]  # part, system


class Store:
    """A folder of cells."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, cell: Cell) -> None:
        """Store a cell, replacing an earlier one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path((cell.part, cell.system))
        scratch = path.with_suffix(".new")
        scratch.write_text(cell.model_dump_json(indent=1) + "\n", encoding="utf-8")
        scratch.rename(path)

    def has(self, key: CellKey) -> bool:
        """Return whether this cell was measured."""
        return self._path(key).exists()

    def delete(self, key: CellKey) -> None:
        """Delete a cell, so that it is measured again."""
        self._path(key).unlink(missing_ok=True)

    def read(self, order: Sequence[CellKey]) -> Run:
        """Return all cells, in a given order."""
        found = [self._path(key) for key in order if self.has(key)]
        return Run(cells=tuple(Cell.model_validate_json(path.read_text(encoding="utf-8")) for path in found))

    def _path(self, key: CellKey) -> Path:
        return self._folder / f"{key[0]}.{key[1]}.json"
