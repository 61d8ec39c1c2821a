"""Where the Python processes that we start find modules: where they were installed, not in the working directory."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

_HOME = Path(__file__).resolve().parent.parent


def keep_off_working_directory(environ: MutableMapping[str, str], home: Path = _HOME) -> None:
    """Anybody's `dis.py` in the working directory would otherwise stand in for Python's own.

    Where the working directory is the one that this very package was loaded from, it stays: a clone that was not
    installed works there.
    """
    if "PYTHONSAFEPATH" not in environ and Path.cwd() == home:
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), environ.get("PYTHONPATH"))))
    environ["PYTHONSAFEPATH"] = "1"
