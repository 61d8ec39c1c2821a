"""Large downloads of the tests, kept in the user's cache so that later clones reuse them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/icemirror`, or `~/.cache/icemirror`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "icemirror"


def fetch_once(name: str, fetch: Callable[[Path], Path]) -> Path:
    """Return `cache/name`. If it is missing, `fetch` creates it in an empty folder and returns its path.

    It appears whole or not at all, and one process at a time makes it.
    """
    wanted = cache_directory() / name
    if wanted.exists():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{wanted}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if wanted.exists():  # another process made it while this one waited
            return wanted
        scratch = Path(tempfile.mkdtemp(prefix=".fetch-", dir=wanted.parent))
        try:
            fetch(scratch).rename(wanted)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return wanted
