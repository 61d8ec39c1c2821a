"""What is written for a commit, and goes again where there is none: the one place that knows when nothing may go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyiceberg.io import FileIO

from icemirror.errors import CommitUnknown, Contested
from spark_job.files.discard import discard


@contextmanager
def written_before_commit(io: FileIO, paths: Iterable[str] = ()) -> Iterator[list[str]]:
    """Takes the paths of files that nobody can know yet: whatever ends this early, Ctrl-C too, removes them."""
    written = list(paths)
    try:
        yield written
    except BaseException:
        discard(io, written)
        raise


@contextmanager
def written_for_commit(io: FileIO, paths: Iterable[str] = ()) -> Iterator[list[str]]:
    """Takes the paths of files that a commit in here names; they go only where it certainly did not happen.

    After Ctrl-C that is not certain: the catalog may be at it.
    """
    written = list(paths)
    try:
        yield written
    except (CommitUnknown, Contested):
        raise
    except Exception:
        discard(io, written)
        raise
