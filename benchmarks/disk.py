"""Bytes on disk."""

from __future__ import annotations

from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """Return the total size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
