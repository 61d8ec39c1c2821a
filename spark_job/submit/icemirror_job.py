"""The file for `spark-submit`, on EMR Serverless and on Kubernetes: a worker of icemirror, which must be installed.

`icemirror_job.py maintain …` is the command of that name, with the configuration packed in the environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from icemirror.settings.packed import unpack_config
from spark_job.__main__ import main


def maintain(arguments: list[str]) -> int:
    """Runs the command in a process of its own, as a person would."""
    with tempfile.TemporaryDirectory() as folder:
        path = unpack_config(os.environ, Path(folder))
        given = os.environ if path is None else {**os.environ, "ICEMIRROR_CONFIG": str(path)}
        return subprocess.run(
            [sys.executable, "-m", "icemirror", *arguments], env=given, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(maintain(sys.argv[1:]) if sys.argv[1:2] == ["maintain"] else main())
