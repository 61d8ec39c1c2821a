"""The import path of Python processes that icemirror starts: installed packages, not the working directory."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

_HOME = Path(__file__).resolve().parents[2]


def exclude_working_directory(environ: MutableMapping[str, str], home: Path = _HOME) -> None:
    """Exclude the working directory, where a file such as `dis.py` would shadow a standard module.

    The folder that this package was loaded from stays importable, so that a clone works without installation.
    """
    if "PYTHONSAFEPATH" not in environ and Path.cwd() == home:
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(home), environ.get("PYTHONPATH"))))
    environ["PYTHONSAFEPATH"] = "1"
