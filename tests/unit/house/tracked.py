"""The files of the project: those that git tracks or would track."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return every file that `.gitignore` does not exclude. Its patterns are plain names."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    ignored = (".git", *(line.rstrip("/") for line in lines))

    def kept(names: list[str]) -> list[str]:
        return [name for name in names if not any(fnmatch(name, pattern) for pattern in ignored)]

    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = kept(folders)
        found += [Path(folder, name) for name in kept(files)]
    return tuple(sorted(path for path in found if path.is_file()))


@cache
def texts() -> dict[str, str]:
    """Return every tracked text file by its path in the project."""
    found = {}
    for path in tracked_files():
        try:
            found[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture, a recorded Parquet file
    return found
