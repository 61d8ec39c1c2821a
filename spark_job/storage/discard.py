"""Deletes files that no snapshot references: of a failed attempt, of expired snapshots, orphans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from pyiceberg.io import FileIO

from icemirror.errors import CommitUnknown, UnverifiedConflict
from spark_job.storage.parallel import map_parallel

_MAX_PERMISSION_ERRORS = 3


@dataclass(frozen=True, slots=True)
class Discarded:
    """How many files were deleted, how many storage refused to delete, and the first reason."""

    deleted: int = 0
    not_deleted: int = 0
    reason: str | None = None


class _DeleteOutcome(Enum):
    """What became of one file."""

    DELETED = auto()
    MISSING = auto()
    NOT_DELETED = auto()


def discard(io: FileIO, paths: Iterable[str]) -> Discarded:
    """Delete these files. A file that cannot be deleted is a cost, not an error: nothing references it.

    The job may lack the permission to delete. After a few permission errors the remaining files are not tried.
    """
    reasons: list[str] = []
    forbidden: list[str] = []

    def delete(path: str) -> _DeleteOutcome:
        if len(forbidden) >= _MAX_PERMISSION_ERRORS:
            return _DeleteOutcome.NOT_DELETED
        try:
            io.delete(path)
        except FileNotFoundError:
            return _DeleteOutcome.MISSING
        except Exception as error:  # storage clients raise different classes; all mean that the file stays
            reasons.append(type(error).__name__)
            if isinstance(error, PermissionError):
                forbidden.append(path)
            return _DeleteOutcome.NOT_DELETED
        return _DeleteOutcome.DELETED

    unique_paths = list(dict.fromkeys(paths))
    if not unique_paths:
        return Discarded()
    outcomes = map_parallel(delete, unique_paths, unique_paths[0])
    return Discarded(
        outcomes.count(_DeleteOutcome.DELETED),
        outcomes.count(_DeleteOutcome.NOT_DELETED),
        reasons[0] if reasons else None,
    )


@contextmanager
def discard_on_error(io: FileIO, paths: Iterable[str] = ()) -> Iterator[list[str]]:
    """Yield a list for the paths of files that nothing references yet. Any error, also Ctrl-C, deletes these files."""
    written = list(paths)
    try:
        yield written
    except BaseException:
        discard(io, written)
        raise


@contextmanager
def discard_unless_committed(io: FileIO, paths: Iterable[str] = ()) -> Iterator[list[str]]:
    """Yield a list for the paths of files that a commit in this block references.

    An error deletes them only if the commit certainly did not happen. After Ctrl-C this is not certain: the catalog
    may still apply the commit.
    """
    written = list(paths)
    try:
        yield written
    except (CommitUnknown, UnverifiedConflict):
        raise
    except Exception:
        discard(io, written)
        raise
