"""The files of the project: what git tracks or would track."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Tracked files and new ones that are not ignored; without git, everything but hidden folders."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]
        names = [name for name in names if not any(part.startswith(".") for part in Path(name).parts[:-1])]
    else:
        names = done.stdout.split("\0")
    return tuple(sorted(path for name in names if name and (path := ROOT / name).is_file()))


@cache
def texts() -> dict[str, str]:
    """Every tracked text file by its path in the project."""
    found = {}
    for path in tracked_files():
        try:
            found[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture, a recorded Parquet file
    return found
