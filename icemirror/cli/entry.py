"""The entry point of the console script. It handles Ctrl-C before anything heavy is imported."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from icemirror.cli.terminal.interrupts import command_interrupted, record_interrupts

_INTERRUPTED = 130  # Exit.INTERRUPTED, not imported yet


def main() -> NoReturn:
    """Run the command line."""
    try:
        record_interrupts()
        from icemirror.cli.main import main as run_command

        run_command()
    except BaseException as error:
        if isinstance(error, SystemExit) or not command_interrupted():
            raise
        os.write(2, b"interrupted\n")
        sys.exit(_INTERRUPTED)
