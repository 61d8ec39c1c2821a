"""The error of a segment that must be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from icemirror.errors import Corrupt


class DamagedSegment(Corrupt):
    """A segment is missing or damaged. `path` identifies it, so that it can be rebuilt."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path

    def __str__(self) -> str:
        return f"{self.args[1]}"


@contextmanager
def reading_segment(path: str) -> Iterator[None]:
    """Raise `DamagedSegment` if reading this segment finds it missing or damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedSegment(path, f"a segment of the key index is missing: {path}") from error
    except DamagedSegment:
        raise
    except Corrupt as error:
        raise DamagedSegment(path, str(error)) from error
