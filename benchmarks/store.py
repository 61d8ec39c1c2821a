"""The results of a run: a file for each cell, so that a run that was interrupted goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.result import Cell, Run

Place = tuple[str, str]  # part, system


class Store:
    """A folder of cells."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, cell: Cell) -> None:
        """Keeps a cell in place of an earlier one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path((cell.part, cell.system))
        scratch = path.with_suffix(".new")
        scratch.write_text(cell.model_dump_json(indent=1) + "\n", encoding="utf-8")
        scratch.rename(path)

    def has(self, place: Place) -> bool:
        """Was this measured?"""
        return self._path(place).exists()

    def forget(self, place: Place) -> None:
        """Lets it be measured again."""
        self._path(place).unlink(missing_ok=True)

    def read(self, order: Sequence[Place]) -> Run:
        """All cells, in a given order."""
        found = [self._path(place) for place in order if self.has(place)]
        return Run(cells=tuple(Cell.model_validate_json(path.read_text(encoding="utf-8")) for path in found))

    def _path(self, place: Place) -> Path:
        return self._folder / f"{place[0]}.{place[1]}.json"
