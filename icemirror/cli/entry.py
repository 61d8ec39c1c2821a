"""The entry point of the console script, which stands ready for Ctrl-C before anything heavy is imported."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from icemirror.cli.interrupted import remember_interrupts, was_interrupted

_INTERRUPTED = 130  # as icemirror.errors has it


def main() -> NoReturn:
    """Runs the command that was asked for."""
    try:
        remember_interrupts()
        from icemirror.cli.main import main as run_command

        run_command()
    except BaseException as error:
        if isinstance(error, SystemExit) or not was_interrupted():
            raise
        os.write(2, b"interrupted\n")
        sys.exit(_INTERRUPTED)
