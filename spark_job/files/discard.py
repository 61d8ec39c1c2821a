"""Removes files that certainly belong to nothing: those of a lost attempt, of expired snapshots, orphans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from pyiceberg.io import FileIO

from spark_job.files.round_trips import for_each

_MOST_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Discarded:
    """How many files went, and how many stayed because storage refused."""

    deleted: int = 0
    left: int = 0
    reason: str | None = None


class _End(Enum):
    DELETED = auto()
    GONE = auto()
    LEFT = auto()


def discard(io: FileIO, paths: Iterable[str]) -> Discarded:
    """Deletes what can be deleted. What stays is unreferenced: a cost, not an error; a job may lack the permission.

    After a few that may not be deleted the others are not tried: they would be refused as well.
    """
    reasons: list[str] = []
    forbidden: list[str] = []

    def delete(path: str) -> _End:
        if len(forbidden) >= _MOST_REFUSALS:
            return _End.LEFT
        try:
            io.delete(path)
        except FileNotFoundError:
            return _End.GONE
        except Exception as error:  # any storage's refusal is as good as another
            reasons.append(type(error).__name__)
            if isinstance(error, PermissionError):
                forbidden.append(path)
            return _End.LEFT
        return _End.DELETED

    wanted = list(dict.fromkeys(paths))
    if not wanted:
        return Discarded()
    ends = for_each(delete, wanted, wanted[0])
    return Discarded(ends.count(_End.DELETED), ends.count(_End.LEFT), reasons[0] if reasons else None)
