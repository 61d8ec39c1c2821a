"""The script for `spark-submit` on EMR Serverless and Kubernetes: runs a worker. icemirror must be installed.

`icemirror_job.py maintain … --config …` runs that command with a packed configuration.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from icemirror.config_file.find import DEFAULT_NAME
from icemirror.config_file.packing import unpack_arguments
from icemirror.errors import Exit, Invalid
from spark_job.worker.main import main


def run_maintain_command(arguments: list[str]) -> int:
    """Run `icemirror maintain …` in a separate process; return its exit code."""
    parser = argparse.ArgumentParser(prog="icemirror_job.py", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="+", default=())
    options, command = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, DEFAULT_NAME)
        if options.config:
            try:
                path.write_text(unpack_arguments(options.config), encoding="utf-8")
            except Invalid as error:
                print(f"error: {error}", file=sys.stderr)
                return Exit.BLOCKED
            command += ["-c", str(path)]
        return subprocess.run([sys.executable, "-m", "icemirror", *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(run_maintain_command(sys.argv[1:]) if sys.argv[1:2] == ["maintain"] else main())
