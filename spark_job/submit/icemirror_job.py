"""The file for `spark-submit`, on EMR Serverless and on Kubernetes: a worker of icemirror, which must be installed.

`icemirror_job.py maintain … --config …` is the command of that name, with the configuration packed as a worker's is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from icemirror.errors import Exit, Invalid
from icemirror.settings.find import DEFAULT_NAME
from icemirror.settings.for_job import unpack
from spark_job.__main__ import main


def maintain(arguments: list[str]) -> int:
    """Runs the command in a process of its own, as a person would."""
    parser = argparse.ArgumentParser(prog="icemirror_job.py", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="+", default=())
    given, command = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, DEFAULT_NAME)
        if given.config:
            try:
                path.write_text(unpack(given.config), encoding="utf-8")
            except Invalid as error:
                print(f"error: {error}", file=sys.stderr)
                return Exit.NEEDS_PERSON
            command += ["-c", str(path)]
        return subprocess.run([sys.executable, "-m", "icemirror", *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(maintain(sys.argv[1:]) if sys.argv[1:2] == ["maintain"] else main())
