"""Removes the files of an attempt that certainly did not commit."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.io import FileIO


def discard(io: FileIO, paths: Iterable[str]) -> None:
    """Deletes what can be deleted. What stays is unreferenced: a cost, not an error; a job may lack the permission."""
    for path in paths:
        try:
            io.delete(path)
        except Exception:  # noqa: S112 (any storage's refusal is as good as another)
            continue
