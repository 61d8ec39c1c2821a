"""Large downloads, kept in the user's cache so that later clones reuse them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


class Unavailable(Exception):
    """It can be neither downloaded nor built on this machine."""


def cache_directory() -> Path:
    """Return `$XDG_CACHE_HOME/icemirror`, or `~/.cache/icemirror`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "icemirror"


def fetch_once(name: str, fetch: Callable[[Path], Path]) -> Path:
    """Return `cache/name`. If it is missing, `fetch` creates it in an empty folder and returns its path.

    It appears atomically, and only one process at a time creates it.
    """
    target = cache_directory() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{target}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():  # another process created it in the meantime
            return target
        scratch = Path(tempfile.mkdtemp(prefix=".fetch-", dir=target.parent))
        try:
            fetch(scratch).rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target
