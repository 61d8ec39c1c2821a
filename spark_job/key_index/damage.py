"""A segment that is missing or damaged: named by its path, so that it can be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from icemirror.errors import Corrupt


class DamagedSegment(Corrupt):
    """A segment of a key index cannot be read."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path

    def __str__(self) -> str:
        return f"{self.args[1]}"


@contextmanager
def reading_segment(path: str) -> Iterator[None]:
    """Names the segment that cannot be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedSegment(path, f"{path}: a segment of the key index is gone") from error
    except DamagedSegment:
        raise
    except Corrupt as error:
        raise DamagedSegment(path, str(error)) from error
